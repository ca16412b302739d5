"""The formats shared by client and server: the JSON reader, base64, and types of messages."""
