"""What ties this package to others: each sees all of it, and nothing of it sees them."""
