import { availableParallelism } from 'node:os'
import { z } from 'zod'
import { systemClock } from '../kit/base/clock.ts'
import { BrimError } from '../kit/base/errors.ts'
import type { Io } from '../kit/base/io.ts'
import { defineCommand, type OptionsOf } from '../kit/cli/command.ts'
import { int4BlockSizes } from '../model/bundle/architecture.ts'
import type { BuildEvent } from '../model/bundle/build.ts'
import type { Conversion } from '../model/bundle/conversions.ts'
import { drafterParts, formats, poolings } from '../model/bundle/manifest.ts'
import { bundleText, summarize } from './bundle-text.ts'
import { memorySize } from './memory-size.ts'
import { fileOption } from './model-pull.ts'
import type { PrivateSplit } from './private-split.ts'
import { showProgress } from './progress.ts'
import { checkpointOf } from './pull-checkpoint.ts'

const Drafters = z
  .string()
  .transform((list) => list.split(',').map((name) => name.trim()))
  .pipe(z.array(z.enum(drafterParts, `must be a list of ${drafterParts.join(', ')}, such as adapter,medusa`)))

const options = {
  checkpoint: z
    .string()
    .describe('folder with config.json, *.safetensors and tokenizer.json, a GGUF file, or OWNER/NAME at the hub'),
  file: fileOption,
  out: z.string().describe('folder of the new bundle'),
  split: z
    .string()
    .regex(/^(auto|\d+)$/, 'must be a number of layers, or auto')
    .transform((text) => (text === 'auto' ? text : Number(text)))
    .optional()
    .meta({
      description: 'layers that run on the device; auto: as "brim model inspect" says for --device-memory',
      fallback: 'none: one whole model',
    }),
  deviceMemory: memorySize.optional().meta({
    description: 'with --split auto: memory of a device for weights and KV, such as 4G',
    fallback: 'any',
  }),
  privacy: z.number().min(0).max(1).optional().meta({
    description:
      'with --split auto and --prompts: the shallowest split at which no attack of "brim privacy audit" recovers more than this share of the tokens, 0 to 1; each that is tried is built and audited',
    fallback: 'depth is chosen by memory and speed alone',
  }),
  prompts: z.string().optional().meta({
    description: 'with --privacy: file of JSON lines with prompt or messages, which are attacked',
    fallback: 'none',
  }),
  format: z.enum(formats).optional().meta({
    description: 'weights: fp16 and fp32 compute in fp32; int4 and int8 have one scale for each block of weights',
    fallback: 'fp16; of a quantised checkpoint the nearer of int4 and int8',
  }),
  deviceFormat: z.enum(formats).optional().meta({
    description: 'weights of the parts that devices compute; with int4 a step of theirs reads a third of what it reads with fp16',
    fallback: 'as --format',
  }),
  accuracyLevel: z
    .literal([1, 4])
    .default(4)
    .describe('accuracy level of int4 and int8: 4 is fast, with 1 verification and decoding have the same results'),
  blockSize: z
    .literal([...int4BlockSizes])
    .optional()
    .meta({
      description: 'weights of int4 and int8 that share a scale: 32 is closest to the model, 128 is fastest and smallest',
      fallback: 'as in a quantised checkpoint, else 32',
    }),
  embedding: z
    .enum(['auto', ...poolings])
    .optional()
    .meta({
      description: 'a model that embeds texts, by the mean of their rows or the last one; auto: as the checkpoint says',
      fallback: 'none: a model that answers',
    }),
  drafters: Drafters.optional().meta({
    description: `drafters to include, each from <checkpoint>/<name>: ${drafterParts.join(',')}`,
    fallback: 'adapter, if there is one',
  }),
  adapter: z.string().optional().meta({ description: 'folder of the drafter adapter', fallback: '<checkpoint>/adapter' }),
  draftHead: z.string().optional().meta({
    description:
      'draft head in the layout of EAGLE or EAGLE-2 as the drafter adapter: its folder or file, or OWNER/NAME at the hub',
    fallback: 'none',
  }),
  name: z.string().optional().meta({ description: 'name of the model', fallback: "the checkpoint folder's" }),
  force: z.boolean().default(false).describe('replace an existing bundle'),
}
type BuildOptions = OptionsOf<typeof options>
type SplitOptions = Pick<BuildOptions, 'format' | 'deviceFormat' | 'blockSize' | 'adapter' | 'draftHead'>

/** As of "brim privacy audit". */
const auditedAnswerTokens = 64

/** `brim model build`: a Hugging Face directory or a GGUF file becomes a bundle. */
export const command = defineCommand({
  examples: [
    ['brim model build ./Qwen2.5-0.5B --split 2 --format int4 --out qwen', 'input and output for devices, middle for the bridge'],
    [
      'brim model build ./Qwen2.5-0.5B --split auto --device-memory 1G --out qwen',
      'the deepest split that a device has memory for',
    ],
    ['brim model build ./Qwen2.5-0.5B --split auto --privacy 0.5 --prompts p.jsonl --out qwen', 'the shallowest that hides half'],
    ['brim model build ./Qwen2.5-0.5B --out qwen-whole', 'one whole model for this machine'],
    ['brim model build Qwen/Qwen2.5-0.5B-Instruct --split 2 --out qwen', "downloads the model first, as 'brim model pull'"],
    ['brim model build ./Qwen2.5-0.5B-Q4_0.gguf --format int4 --out qwen', 'weights in Q4_0 stay as they are'],
    ['brim model build Qwen/Qwen3-Embedding-0.6B --embedding auto --out embed', 'for --embedding of "brim agent run"'],
    ['brim model build ./vicuna --split 2 --adapter ./adapter --out vicuna', 'with a drafter'],
    ['brim model build ./vicuna --split 2 --draft-head ./EAGLE-Vicuna-7B-v1.3 --out vicuna', 'with a published draft head'],
    [
      'brim model build ./vicuna --split 2 --drafters adapter,medusa --out vicuna',
      'drafters in ./vicuna/adapter and ./vicuna/medusa',
    ],
  ],
  options,
  run: build,
})

async function build({ force, json, file, deviceMemory, privacy, prompts, ...options }: BuildOptions, io: Io): Promise<void> {
  const [{ buildBundle }, { codeStates }] = await Promise.all([
    import('../model/bundle/build.ts'),
    import('../model/coding/code-states.ts'),
  ])
  if (deviceMemory !== undefined && options.split !== 'auto')
    throw new BrimError('USAGE', '--device-memory is for --split auto', { hint: 'add --split auto, or omit it' })
  if ((privacy !== undefined && options.split !== 'auto') || (privacy === undefined) !== (prompts === undefined))
    throw new BrimError('USAGE', '--privacy is for --split auto, with the --prompts that are attacked', {
      hint: 'give all three, or none',
    })
  const { checkpoint, name } = await checkpointOf(options.checkpoint, file, io)
  const draftHead =
    options.draftHead === undefined ? undefined : (await checkpointOf(options.draftHead, undefined, io)).checkpoint
  const own = { ...options, checkpoint, draftHead, split: undefined, replace: force }
  const threads = Math.min(4, availableParallelism())
  let audited: PrivateSplit | undefined
  if (privacy !== undefined && prompts !== undefined) {
    const { privateSplit } = await import('./private-split.ts')
    const texts = { prompts, answerTokens: auditedAnswerTokens, threads }
    audited = await privateSplit(own, { bound: privacy, deviceBytes: deviceMemory, ...texts }, json, io)
  }
  const split = audited?.split ?? (options.split === 'auto' ? await autoSplit(checkpoint, own, deviceMemory, io) : options.split)
  const startMs = systemClock.nowMs()
  const progress = showProgress(io)
  const warnings: string[] = []
  const conversions: Conversion[] = []
  const onEvent = (event: BuildEvent) => {
    if (event.kind === 'progress') progress.update(event.part, event.doneBytes / event.totalBytes)
    else if (event.kind === 'warning') {
      warnings.push(event.message)
      io.err(`warning: ${event.message}`)
    } else conversions.push(event)
  }
  const { dir, manifest } = await buildBundle({
    ...options,
    checkpoint,
    draftHead,
    split,
    name: options.name ?? name,
    replace: force,
    codeStates: (folder) => codeStates(folder, threads, io.signal),
    signal: io.signal,
    onEvent,
  })
  progress.end()
  const elapsedS = (systemClock.nowMs() - startMs) / 1000
  const summary = summarize(dir, manifest)
  const converted = conversions.map(({ from, to, values, relativeError }) => ({ from, to, values, relativeError }))
  const depths = audited && { privacy: { bound: privacy, depths: audited.depths } }
  io.out(json ? JSON.stringify({ ...summary, elapsedS, warnings, converted, ...depths }) : bundleText(summary))
  if (json) return
  for (const conversion of conversions) io.err(conversionText(conversion))
  io.err(`built in ${elapsedS.toFixed(1)} s`)
}

async function autoSplit(path: string, options: SplitOptions, deviceBytes: number | undefined, io: Io): Promise<number> {
  const [{ openCheckpoint }, { splitFor }] = await Promise.all([
    import('../model/bundle/checkpoint.ts'),
    import('../model/bundle/assess-model.ts'),
  ])
  await using checkpoint = await openCheckpoint(path)
  const { split, reason } = await splitFor(checkpoint, { ...options, deviceBytes })
  io.err(`split after layer ${split}: ${reason}`)
  return split
}

function conversionText({ from, to, values, relativeError }: Conversion): string {
  const loss = relativeError === 0 ? 'without loss' : `relative error ${(100 * relativeError).toPrecision(2)} %`
  return `${from} → ${to}: ${values} weights, ${loss}`
}
