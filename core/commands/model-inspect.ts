import { resolve } from 'node:path'
import type { CommandModule } from 'yargs'
import type { Io } from '../base/io.ts'
import { readManifest } from '../model/bundle.ts'
import { bundleText, summarize } from './bundle-text.ts'

interface InspectOptions {
  bundle: string
  json?: boolean | undefined
}

/** `brim model inspect`: what a bundle says about itself. */
export function modelInspectCommand(io: Io): CommandModule<object, InspectOptions> {
  return {
    command: 'inspect <bundle>',
    describe: 'show what a bundle holds',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim model inspect <bundle> [--json]')
        .example('brim model inspect qwen', 'model, format, split, parts')
        .example('brim model inspect qwen --json | jq .modelId', 'what agent and bridge compare')
        .positional('bundle', { type: 'string', demandOption: true, describe: 'folder of the bundle' }),
    handler: async ({ bundle, json }) => {
      const summary = summarize(resolve(bundle), await readManifest(bundle))
      io.out(json ? JSON.stringify(summary) : bundleText(summary))
    },
  }
}
