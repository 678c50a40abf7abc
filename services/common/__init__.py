"""The chassis that every service rides on. No domain word stands here."""
