import { resolve } from 'node:path'
import { z } from 'zod'
import { defineCommand } from '../kit/cli/command.ts'
import { readManifest } from '../model/bundle/bundle.ts'
import { bundleText, summarize } from './bundle-text.ts'

/** `brim model inspect` */
export const command = defineCommand({
  examples: [
    ['brim model inspect qwen', 'model, format, split, parts'],
    ['brim model inspect qwen --json | jq .modelId', 'must be equal at agent and bridge'],
  ],
  options: { bundle: z.string().describe('folder of the bundle') },
  async run({ bundle, json }, io) {
    const summary = summarize(resolve(bundle), await readManifest(bundle))
    io.out(json ? JSON.stringify(summary) : bundleText(summary))
  },
})
