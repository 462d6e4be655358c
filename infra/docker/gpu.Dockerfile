# syntax=docker/dockerfile:1.7
# Workers with an NVIDIA GPU; the driver comes from the host (NVIDIA Container Toolkit), CUDA with PyTorch's wheels.
#   docker build -f infra/docker/gpu.Dockerfile --build-arg PYTHON_IMAGE=python:3.11.14-slim-bookworm@sha256:... \
#     -t research-arena-gpu:0.1.0 .
# The base image has no default: give it by digest (docs/how-to/install.md).
ARG PYTHON_IMAGE
FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/arena
ENV PATH=/opt/arena/bin:$PATH
WORKDIR /src
COPY infra/docker/gpu.lock ./
RUN pip install --require-hashes --no-deps --requirement gpu.lock
COPY pyproject.toml README.md arena.py ./
COPY schemas schemas
COPY tasks tasks
COPY flows flows
RUN pip install --no-deps .

FROM ${PYTHON_IMAGE}
RUN useradd --uid 10001 --create-home arena \
 && install --directory --owner=arena --group=arena /data/store /data/releases /data/models /data/state
COPY --from=build /opt/arena /opt/arena
ENV PATH=/opt/arena/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    ARENA_ROOT=/data/store ARENA_RELEASES=/data/releases ARENA_STATE=/data/state HF_HOME=/data/models
USER 10001:10001
WORKDIR /home/arena
CMD ["arena", "--help"]
