# syntax=docker/dockerfile:1.7
# The Prefect server, `arena`, and workers without a GPU. From the repository's root:
#   docker build -f infra/docker/cpu.Dockerfile -t research-arena-cpu:0.1.0 .
FROM python:3.11.14-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/arena
ENV PATH=/opt/arena/bin:$PATH
# The largest and rarest change first: PyTorch without CUDA is a tenth of the size.
RUN pip install --index-url https://download.pytorch.org/whl/cpu torch==2.13.0
WORKDIR /src
COPY pyproject.toml constraints.txt README.md arena.py ./
COPY schemas schemas
COPY tasks tasks
COPY flows flows
RUN pip install --constraint constraints.txt ".[dense,organize,llm,pdf]"

FROM python:3.11.14-slim-bookworm
RUN useradd --uid 10001 --create-home arena \
 && install --directory --owner=arena --group=arena /data/store /data/releases /data/models /data/state
COPY --from=build /opt/arena /opt/arena
ENV PATH=/opt/arena/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ARENA_ROOT=/data/store ARENA_RELEASES=/data/releases ARENA_STATE=/data/state HF_HOME=/data/models
USER 10001:10001
WORKDIR /home/arena
CMD ["arena", "--help"]
