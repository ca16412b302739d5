"""What client and server share: the JSON reader, base64, wire types."""
