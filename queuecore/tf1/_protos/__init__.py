"""Protocol messages, files, and the names of TensorFlow's that are refused."""
