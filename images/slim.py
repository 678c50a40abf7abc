"""`python3 slim.py FOLDER`: take out of installed packages what no service uses, compile them for their place in /venv.

Runs while an image is built, in the base image's Python.
"""

import compileall
import os
import py_compile
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

PLACE = "/venv"
PT_LOAD, PAGE_BYTES = 1, 4096
# Folders and files below site-packages that nothing imports.
UNUSED = (
    "Crypto/SelfTest",
    "PIL/_avif.*",
    "PIL/_imagingcms.*",
    "PIL/_imagingft.*",
    "PIL/_imagingtk.*",
    # LiteRT's compilers and accelerators for other hardware.
    "ai_edge_litert/aot",
    "ai_edge_litert/libLiteRt*.so",
    "ai_edge_litert/tools",
    "ai_edge_litert/vendors",
    "numpy/f2py",
    # The library for programs in C; the Python module contains it a second time.
    "onnxruntime/capi/libonnxruntime.so.*",
    "onnxruntime/datasets",
    "onnxruntime/quantization",
    "onnxruntime/tools",
    "onnxruntime/transformers",
    # Of the modules of Pillow above.
    "pillow.libs/libavif-*",
    "pillow.libs/libbrotli*",
    "pillow.libs/libfreetype-*",
    "pillow.libs/libharfbuzz-*",
    "pillow.libs/liblcms2-*",
    "pillow.libs/libpng16-*",
)
# Their libraries keep no symbols worth the minutes.
NOT_STRIPPED = {"nvidia", "torch", "triton"}
FFMPEG = {"libavcodec", "libavformat", "libavutil", "libswresample", "libswscale"}
# What only OpenCV's own FFmpeg needs.
OF_FFMPEG = ("libcrypto", "libssl", "libvpx")
# faster-whisper imports PyAV to read files, and is given samples.
NO_AV = '''"""Stands for PyAV, which this image does without."""


def __getattr__(name: str) -> object:
    raise ImportError(f"this image has no PyAV: av.{name}")
'''
# Loaded once everything is done, where they are installed.
COMPILED = (
    "PIL.Image",
    "ai_edge_litert.interpreter",
    "asyncpg",
    "av",
    "ctranslate2",
    "cv2",
    "faster_whisper",
    "grpc",
    "numpy",
    "onnxruntime",
    "pydantic",
    "tokenizers",
    "xllamacpp",
)
CHECK_CV2 = """
import cv2, numpy
assert cv2.solve(numpy.eye(9), numpy.eye(9))[0]
assert cv2.imencode(".png", numpy.eye(9, dtype="uint8"))[0]
"""


def remove_unused(site: Path) -> None:
    """Remove tests, types, sources of what is compiled, and `UNUSED`."""
    for folder in [path for path in site.rglob("tests") if path.is_dir()]:
        shutil.rmtree(folder, ignore_errors=True)
    for suffix in ("pyi", "pyx", "pxd"):
        for path in site.rglob(f"*.{suffix}"):
            path.unlink()
    for pattern in UNUSED:
        for path in site.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def strip_symbols(site: Path) -> None:
    """Strip compiled modules and libraries of what only debuggers and linkers read.

    `strip` spoils some libraries that were patched to find each other; these stay as they were.
    """
    for path in site.rglob("*.so*"):
        is_left = path.is_symlink() or not path.is_file() or path.relative_to(site).parts[0] in NOT_STRIPPED
        if not is_left and path.open("rb").read(4) == b"\x7fELF":
            stripped = path.with_name(path.name + ".stripped")
            subprocess.run(["strip", "--strip-unneeded", "-o", str(stripped), str(path)], check=True)
            if is_loadable(stripped.read_bytes()):
                shutil.copymode(path, stripped)
                stripped.replace(path)
            else:
                stripped.unlink()


def is_loadable(library: bytes) -> bool:
    """Tell whether the segments of a 64-bit library lie as the loader wants them."""
    (first,) = struct.unpack_from("<Q", library, 32)
    size, count = struct.unpack_from("<HH", library, 54)
    for place in range(first, first + size * count, size):
        kind, _, offset, address, _, _, _, alignment = struct.unpack_from("<IIQQQQQQ", library, place)
        if kind == PT_LOAD and (alignment < PAGE_BYTES or (address - offset) % alignment):
            return False
    return True


def check_loads(site: Path) -> None:
    """Load what is compiled.

    Raises:
        subprocess.CalledProcessError: Something does not load; Python has said what.
    """
    there = [name for name in COMPILED if (site / name.partition(".")[0]).is_dir()]
    program = "\n".join(f"import {name}" for name in there) + (CHECK_CV2 if "cv2" in there else "")
    variables = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([f"{PLACE}/bin/python", "-c", program], check=True, env=variables)


def share_libraries(site: Path) -> None:
    """Give OpenCV PyAV's FFmpeg where it is the same version, and Debian's BLAS and LAPACK for an OpenBLAS of its own.

    Services transform pictures with OpenCV, which needs neither; it would not load without them.
    """
    libraries = site / "opencv_python_headless.libs"
    if not libraries.is_dir():
        return
    (openblas,) = libraries.glob("libopenblas*")
    debian = Path("/usr/lib", os.uname().machine + "-linux-gnu")
    shutil.copyfile(debian / "lapack/liblapack.so.3", openblas)
    shutil.copyfile(debian / "blas/libblas.so.3", libraries / "libblas.so.3")
    for name in ("libgfortran", "libquadmath"):
        for old in libraries.glob(f"{name}-*"):
            old.unlink()
        (new,) = (path for path in debian.glob(f"{name}.so.*") if path.is_symlink())
        shutil.copyfile(new, libraries / new.name)
    av = site / "av.libs"
    ours = {found: path for path in libraries.iterdir() if (found := _library(path)) and found[0] in FFMPEG}
    theirs = {found: path for path in av.glob("*") if (found := _library(path))}
    if not (ours and ours.keys() <= theirs.keys()):
        return
    for found, path in ours.items():
        path.unlink()
        path.symlink_to(os.path.relpath(theirs[found], libraries))
    for path in theirs.values():
        (libraries / path.name).unlink(missing_ok=True)
        (libraries / path.name).symlink_to(os.path.relpath(path, libraries))
    for name in OF_FFMPEG:
        for path in libraries.glob(f"{name}-*"):
            if not path.is_symlink():
                path.unlink()


def _library(path: Path) -> tuple[str, str] | None:
    """Return the name of a library and its major version: what is linked against one works with another."""
    found = re.match(r"(lib[\w+-]+?)-[0-9a-f]{8}\.so\.?(\d*)", path.name)
    return (found[1], found[2]) if found else None


def main() -> int:
    """Run the program; return its exit status."""
    root = Path(sys.argv[1])
    for site in root.glob("lib/python3.*/site-packages"):
        remove_unused(site)
        share_libraries(site)
        strip_symbols(site)
        if (site / "faster_whisper").is_dir() and not (site / "av").is_dir():
            (site / "av.py").write_text(NO_AV, "utf-8")
        # A container cannot write bytecode. Some packages have files for other versions of Python, which fail.
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(site, quiet=2, stripdir=root, prependdir=PLACE, invalidation_mode=mode)
        check_loads(site)
    return 0


if __name__ == "__main__":
    sys.exit(main())
