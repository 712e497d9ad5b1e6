"""Threads of Python's, and what runs in them: coordinators, looper threads and queue runners."""
