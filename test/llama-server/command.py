"""llama.cpp's server with the options of its program that `brim bench engine --vs llamacpp` gives. Ends with its signal."""

import argparse
import signal

import xllamacpp

parser = argparse.ArgumentParser()
parser.add_argument("-m", required=True)
for name in ("-t", "-c", "-np", "--port"):
    parser.add_argument(name, type=int, required=True)
parser.add_argument("--host", required=True)
given = parser.parse_args()

params = xllamacpp.CommonParams()
params.model.path = given.m
params.n_ctx = given.c
params.n_parallel = given.np
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = given.t
params.hostnames = [given.host]
params.port = given.port
params.warmup = False
params.verbosity = -1
server = xllamacpp.Server(params)
signal.pause()
