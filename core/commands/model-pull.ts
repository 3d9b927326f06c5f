import { z } from 'zod'
import { megabytes } from '../kit/base/megabytes.ts'
import { defineCommand } from '../kit/cli/command.ts'
import { repoOf, requireHubName } from '../model/hub/hub-name.ts'
import { pullWithProgress } from './pull-checkpoint.ts'

export const fileOption = z.string().optional().meta({
  description: 'GGUF file to take, by its name in the repository',
  fallback: 'the safetensors, or the only GGUF file',
})

/** `brim model pull`: the files of a model that a build reads, from Hugging Face's hub. */
export const command = defineCommand({
  examples: [
    ['brim model pull Qwen/Qwen2.5-0.5B-Instruct', 'configuration, tokenizer and safetensors; prints their folder'],
    ['brim model pull Qwen/Qwen2.5-0.5B-Instruct-GGUF --file qwen2.5-0.5b-instruct-q4_0.gguf', 'one of several GGUF files'],
    ['brim model build Qwen/Qwen2.5-0.5B-Instruct --split 2 --out qwen', 'pull and build in one step'],
  ],
  notes:
    'Models go to $XDG_CACHE_HOME/brim/models/OWNER/NAME (~/.cache/brim/models/…), in a folder per commit; remove folders\nthat are no longer needed. An interrupted pull continues where it ended. Every file is compared with the hash that\nthe hub lists. HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH and HF_HOME are read as by the tools of Hugging Face; the token is sent\nover TLS only, and only to that hub.',
  options: {
    model: z.string().describe('OWNER/NAME or OWNER/NAME@REVISION'),
    file: fileOption,
  },
  async run({ model, file, json }, io) {
    const name = requireHubName(model)
    const { path, commit, bytes, fetchedBytes } = await pullWithProgress(name, file, io)
    if (json) return io.out(JSON.stringify({ model: repoOf(name), commit, path, bytes, fetchedBytes }))
    io.err(`${repoOf(name)} at commit ${commit}: ${megabytes(bytes)}, ${megabytes(fetchedBytes)} of it downloaded now`)
    io.out(path)
  },
})
