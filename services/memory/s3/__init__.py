"""What the back-end `s3` is made of: one request, its credentials, and what the store's refusals mean."""
