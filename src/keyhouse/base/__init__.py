"""What every room uses: errors, problems and their places, secrets, durable files."""
