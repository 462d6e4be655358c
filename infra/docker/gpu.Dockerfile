# syntax=docker/dockerfile:1.7
# Workers with an NVIDIA GPU; the driver comes from the host (NVIDIA Container Toolkit), CUDA with PyTorch's wheels.
#   docker build -f infra/docker/gpu.Dockerfile -t research-arena-gpu:0.1.0 .
FROM python:3.11.14-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/arena
ENV PATH=/opt/arena/bin:$PATH
RUN pip install torch==2.13.0
WORKDIR /src
COPY pyproject.toml constraints.txt README.md arena.py ./
COPY schemas schemas
COPY tasks tasks
COPY flows flows
# Both builds of FAISS are called `faiss`: the one for CPUs has to go before the other comes.
RUN pip install --constraint constraints.txt ".[dense,organize,llm,pdf,ray]" \
 && pip uninstall --yes faiss-cpu \
 && pip install --constraint constraints.txt ".[gpu]"

FROM python:3.11.14-slim-bookworm
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
