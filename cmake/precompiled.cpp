// Nothing: CMake attaches precompiled headers to a target with a source.
