import type { CommandModule } from 'yargs'
import { systemClock } from '../base/clock.ts'
import { BrimError } from '../base/errors.ts'
import type { Io } from '../base/io.ts'
import { type BuildEvent, buildBundle } from '../model/build.ts'
import { type DrafterPart, drafterParts, type Format, formats } from '../model/manifest.ts'
import { bundleText, summarize } from './bundle-text.ts'
import { showProgress } from './progress.ts'

interface BuildCommandOptions {
  checkpoint: string
  out: string
  split?: number | undefined
  format: Format
  // yargs types know it by its dashed name only.
  accuracyLevel?: 1 | 4
  drafters?: string | undefined
  adapter?: string | undefined
  name?: string | undefined
  force: boolean
  json?: boolean | undefined
}

/** `brim model build`: a Hugging Face directory becomes a bundle. */
export function modelBuildCommand(io: Io): CommandModule<object, BuildCommandOptions> {
  return {
    command: 'build <checkpoint>',
    describe: 'make a bundle of a Hugging Face checkpoint',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim model build <checkpoint> --out <bundle> [options]')
        .example(
          'brim model build ./Qwen2.5-0.5B --split 2 --format int4 --out qwen',
          'input and output for devices, middle for the bridge',
        )
        .example('brim model build ./Qwen2.5-0.5B --out qwen-whole', 'one whole model for this machine')
        .example('brim model build ./vicuna --split 2 --adapter ./adapter --out vicuna', 'with the part that drafts')
        .example(
          'brim model build ./vicuna --split 2 --drafters adapter,medusa --out vicuna',
          'with the rivals in ./vicuna/adapter and ./vicuna/medusa',
        )
        .positional('checkpoint', {
          type: 'string',
          demandOption: true,
          describe: 'folder with config.json, *.safetensors, tokenizer.json',
        })
        .option('out', { type: 'string', demandOption: true, requiresArg: true, describe: 'folder to make' })
        .option('split', {
          type: 'number',
          requiresArg: true,
          describe: 'layers that go to the device; without it the model stays whole',
        })
        .option('format', {
          choices: formats,
          default: 'fp16' as const,
          describe: 'fp16 and fp32 compute in fp32; int4 in blocks of 32',
        })
        .option('accuracy-level', {
          choices: [1, 4] as const,
          default: 4 as const,
          describe: 'of int4: 4 is fast, 1 verifies exactly as it decodes',
        })
        .option('drafters', {
          type: 'string',
          requiresArg: true,
          describe: `parts that draft, each from <checkpoint>/<its name>: ${drafterParts.join(',')} [adapter where it fits]`,
        })
        .option('adapter', {
          type: 'string',
          requiresArg: true,
          describe: 'folder of the drafter adapter [<checkpoint>/adapter]',
        })
        .option('name', { type: 'string', requiresArg: true, describe: "name of the model [the checkpoint folder's]" })
        .option('force', { type: 'boolean', default: false, describe: 'replace an existing bundle' }),
    handler: (options) => runBuild(options, io),
  }
}

async function runBuild(options: BuildCommandOptions, io: Io): Promise<void> {
  const { checkpoint, out, split, format, accuracyLevel = 4, drafters, adapter, name, force, json } = options
  const startMs = systemClock.nowMs()
  const progress = showProgress(io)
  const warnings: string[] = []
  const onEvent = (event: BuildEvent) => {
    if (event.kind === 'progress') progress.update(event.part, event.doneBytes / event.totalBytes)
    else {
      warnings.push(event.message)
      io.err(`warning: ${event.message}`)
    }
  }
  const { dir, manifest } = await buildBundle({
    ...{ checkpoint, out, format, accuracyLevel, replace: force, signal: io.signal, onEvent },
    ...(split === undefined ? {} : { split }),
    ...(drafters === undefined ? {} : { drafters: parseDrafters(drafters) }),
    ...(adapter === undefined ? {} : { adapter }),
    ...(name === undefined ? {} : { name }),
  })
  progress.end()
  const elapsedS = (systemClock.nowMs() - startMs) / 1000
  const summary = summarize(dir, manifest)
  io.out(json ? JSON.stringify({ ...summary, elapsedS, warnings }) : bundleText(summary))
  if (!json) io.err(`built in ${elapsedS.toFixed(1)} s`)
}

/** @throws BrimError USAGE */
function parseDrafters(list: string): DrafterPart[] {
  return list.split(',').map((entry) => {
    const drafter = drafterParts.find((name) => name === entry.trim())
    if (drafter) return drafter
    throw new BrimError('USAGE', `--drafters ${list}: there is no drafter "${entry.trim()}"`, {
      hint: `known are ${drafterParts.join(', ')}; write it like adapter,medusa`,
    })
  })
}
