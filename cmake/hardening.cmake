# The language version, warnings and hardening of every object of cloister.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Not for AddressSanitizer: its tables of variables are 193,000 addresses that each start of cloisterd would relocate.
if(CLOISTER_SANITIZE)
	add_link_options(-no-pie)
else()
	include(CheckPIESupported)
	check_pie_supported(LANGUAGES C)
endif()
include(CheckCCompilerFlag)

# Warnings are errors in the presets (CMAKE_COMPILE_WARNING_AS_ERROR) and nowhere else: a package has to build
# with compilers that did not exist when its source was written.
add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wshadow -Wvla -Wimplicit-fallthrough -Wstrict-prototypes
	-Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wwrite-strings -Wformat=2
	-Wundef -fno-common -fno-strict-aliasing)

# Debian 13's gcc takes the wrong one of two values after some comparisons. What cannot be run here is not trusted.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CROSSCOMPILING)
	try_run(BIT_TEST_STATUS BIT_TEST_COMPILED ${PROJECT_BINARY_DIR}/bit_test ${PROJECT_SOURCE_DIR}/cmake/bit_test.c
		COMPILE_DEFINITIONS -O2)
endif()
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT "${BIT_TEST_STATUS}" STREQUAL "0")
	message(STATUS "The compiler may not use conditional moves: cmake/bit_test.c")
	set(COMPILER_FAULTS -fno-if-conversion)
endif()
add_compile_options(${COMPILER_FAULTS})

check_c_compiler_flag(-fcf-protection=full HAVE_CF_PROTECTION)
check_c_compiler_flag(-fstack-clash-protection HAVE_STACK_CLASH)
add_compile_options(-fstack-protector-strong
	$<$<BOOL:${HAVE_CF_PROTECTION}>:-fcf-protection=full>
	$<$<BOOL:${HAVE_STACK_CLASH}>:-fstack-clash-protection>)
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed)

# Warnings that only clang gives: macros of libseccomp that omit a field, and formats that are
# passed on.
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
	add_compile_options(-Wno-format-nonliteral -Wno-missing-field-initializers)
endif()

# Coverage feedback for libFuzzer.
if(CLOISTER_FUZZ)
	add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(CLOISTER_SANITIZE)
	add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
		-fno-omit-frame-pointer)
	add_link_options(-fsanitize=address,undefined)
	set(UNDUMPABLE_SOURCES ${PROJECT_SOURCE_DIR}/cmake/asan_options.c)
elseif(CLOISTER_SANITIZE_THREADS)
	add_compile_options(-fsanitize=thread -O1 -fno-omit-frame-pointer)
	add_link_options(-fsanitize=thread)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
	# glibc requires optimisation for this, and it does not work with the sanitizers.
	add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
