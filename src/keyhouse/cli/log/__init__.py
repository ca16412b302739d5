"""`keyhouse log`: transparency logs, and policies about their witnesses."""
