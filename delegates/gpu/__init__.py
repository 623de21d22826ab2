"""What the delegates for CUDA and OpenCL share: fusion, memory, recording, built programs."""
