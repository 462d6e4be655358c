# syntax=docker/dockerfile:1.7
# The Prefect server, `arena`, and workers without a GPU. From the repository's root:
#   docker build -f infra/docker/cpu.Dockerfile --build-arg PYTHON_IMAGE=python:3.11.14-slim-bookworm@sha256:... \
#     -t research-arena-cpu:0.1.0 .
# The base image has no default: give it by digest (docs/how-to/install.md).
ARG PYTHON_IMAGE
FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/arena
ENV PATH=/opt/arena/bin:$PATH
# The largest and rarest change first: PyTorch without CUDA is a tenth of the size.
RUN pip install --no-deps --index-url https://download.pytorch.org/whl/cpu torch==2.13.0
WORKDIR /src
COPY infra/docker/cpu.lock ./
RUN pip install --require-hashes --no-deps --requirement cpu.lock
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
    ARENA_ROOT=/data/store ARENA_RELEASES=/data/releases ARENA_STATE=/data/state HF_HOME=/data/models
USER 10001:10001
WORKDIR /home/arena
CMD ["arena", "--help"]
