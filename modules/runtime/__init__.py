"""Scripts that run inside pods: the standard library, and TensorFlow where they need it. Never imported."""
