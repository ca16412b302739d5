"""`keyhouse run --supervise`: stay as the parent of the program, and renew its certificate.

Two threads share the work. The main thread owns processes and signals (``supervisor``). The other
thread speaks with the coordinator and writes the files (``agent``). Orders pass from the agent to
the supervisor, and nothing passes back. A failure of the agent does not end the program.
"""
