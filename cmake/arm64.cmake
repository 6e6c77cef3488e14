# Builds for arm64 on a machine of another architecture, with Debian's crossbuild-essential-arm64 and libraries of
# arm64 beside the machine's own (multiarch). ctest runs the programs by qemu-user. tests/debian/run makes a root
# that has all of it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(PKG_CONFIG_EXECUTABLE aarch64-linux-gnu-pkg-config)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
