# A builder for a machine with an NVIDIA GPU and its container toolkit: records what is stale there, then builds the site.
#
#   docker build -t fba-lab .
#   docker run --rm --gpus all --user "$(id -u):$(id -g)" -v "$PWD:/lab" fba-lab
#
# Run on a mounted checkout, so that records, data and site/ stay, and git says which commit they are of.
FROM python:3.12-slim-bookworm

# gcc: Triton and Inductor build their launchers with it, g++: Inductor's code for a CPU; git: provenance of records.
# dict-gcide: Webster's dictionary, the longer training text.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc g++ git dict-gcide \
    && rm -rf /var/lib/apt/lists/* \
    && git config --system --add safe.directory /lab

# torch by itself and first: it is the largest layer, and the CUDA build that the records of the H200 were made with.
RUN pip install --no-cache-dir torch==2.11.0 --index-url https://download.pytorch.org/whl/cu130

# Then the rest of the requirements, without the project, so that an edit of its code leaves these layers as they are.
WORKDIR /lab
COPY requirements.txt requirements-site.txt /tmp/
RUN sed -e '/^-[er] /d' -e '/^torch==/d' /tmp/requirements-site.txt /tmp/requirements.txt > /tmp/pinned.txt \
    && pip install --no-cache-dir -r /tmp/pinned.txt

COPY . .
RUN pip install --no-cache-dir --no-deps --editable . \
    && useradd --create-home lab \
    && chown -R lab /lab
USER lab

# A home that any user may write to, since --user names one that this image doesn't know. USER stands in for its name.
ENV HOME=/tmp USER=lab PYTHON=python PYTHONUNBUFFERED=1
# What the toolkit puts into the container; utility is nvidia-smi, which says what the GPU is called.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

ENTRYPOINT ["scripts/record-and-build"]
