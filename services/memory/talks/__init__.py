"""What was said: kept, recalled, found again."""
