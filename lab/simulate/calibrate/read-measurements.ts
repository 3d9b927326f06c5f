import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { layersOf, type TransformerShape, wholeModel } from '../hardware/model-shape.ts'
import { modelNamed } from '../hardware/presets/presets.ts'
import type { MeasuredModel, MeasuredSteps } from './measured-steps.ts'

/** Steps that were measured, and of what. */
export interface CalibrationMeasurements extends MeasuredModel {
  readonly steps: readonly MeasuredSteps[]
  /** What they are, for readers of the result. */
  readonly origin: string
}

const positive = z.number().positive()
const count = z.int().positive()

const Row = z.object({
  rows: z.coerce.number().int().positive(),
  context: z.coerce.number().int().nonnegative(),
  seconds: z.coerce.number().positive(),
  streams: z.coerce.number().int().positive().default(1),
})

const EngineDocument = z.object({
  bench: z.literal('engine'),
  conditions: z.object({
    small: z.object({
      hidden_size: count,
      intermediate_size: count,
      num_hidden_layers: count,
      num_attention_heads: count,
      num_key_value_heads: count,
      vocab_size: count,
    }),
    packed: z.object({ sequences: count }),
  }),
  runs: z.array(
    z.object({
      model: z.string(),
      format: z.string().nullish(),
      style: z.string().nullish(),
      context: z.int().nonnegative(),
      measured: z.string(),
      samplesMs: z.array(z.number()),
    }),
  ),
})

const HatDocument = z.object({
  bench: z.literal('hat'),
  conditions: z.object({ model: z.string() }),
  runs: z.array(
    z.object({
      isVoid: z.boolean(),
      stepSizes: z.object({ position: z.number().nullable(), sizes: z.string() }),
    }),
  ),
})

const Profile = z.object({
  promptTokens: count,
  answerTokens: count,
  models: z
    .array(
      z.object({
        model: z.string(),
        ttftMs: positive,
        tpotMs: positive,
        parallel: z.array(z.tuple([count, positive])).default([]),
      }),
    )
    .min(1),
})

/**
 * Reads measured steps: CSV of rows, context, seconds and, if there are several, streams; the document of `brim bench engine` or
 * `brim bench hat`; the profile of a device.
 *
 * @param given name of the model that was measured, where the file does not tell
 * @throws BrimError REQUEST_INVALID naming the file and what is wrong in it; USAGE for an unknown model
 */
export async function readMeasurements(file: string, given: string | undefined): Promise<CalibrationMeasurements> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw invalid(file, 'cannot be read', cause)
  })
  const measurements = text.trimStart().startsWith('{') ? ofDocument(file, text, given) : ofCsv(file, text, given)
  if (measurements.steps.length === 0) throw invalid(file, 'holds no measured steps')
  return measurements
}

function ofCsv(file: string, text: string, given: string | undefined): CalibrationMeasurements {
  const [head = '', ...lines] = text.trim().split(/\r?\n/)
  const names = head.split(',').map((name) => name.trim().toLowerCase())
  for (const name of ['rows', 'context', 'seconds'])
    if (!names.includes(name)) throw invalid(file, `has no column "${name}"; its first line is "${head.slice(0, 80)}"`)
  if (given === undefined) throw new BrimError('USAGE', '--model is missing', { hint: 'name the model that was measured' })
  const rows = lines.map((line, at) => {
    const cells = line.split(',')
    const row = Row.safeParse(Object.fromEntries(names.map((name, column) => [name, cells[column]?.trim()])))
    if (row.success) return row.data
    const [issue] = row.error.issues
    throw invalid(file, `line ${at + 2}: ${String(issue!.path[0])}: ${issue!.message}`)
  })
  const shape = modelNamed(given)
  const steps = rows.map(({ streams, seconds, ...row }) => ({ ...row, streams, chosen: streams, seconds: [seconds] }))
  return { shape, part: wholeModel(shape), steps: grouped(steps), origin: `${rows.length} steps of ${file}` }
}

function ofDocument(file: string, text: string, given: string | undefined): CalibrationMeasurements {
  let document: Record<string, unknown>
  try {
    document = JSON.parse(text) as Record<string, unknown>
  } catch (cause) {
    throw invalid(file, 'is not JSON', cause)
  }
  const read = <T>(schema: z.ZodType<T>, what: string): T => {
    const parsed = schema.safeParse(document)
    if (parsed.success) return parsed.data
    const [issue] = parsed.error.issues
    throw invalid(file, `is not ${what}: ${issue!.path.join('.')}: ${issue!.message}`)
  }
  if (document.bench === 'engine') return ofEngine(read(EngineDocument, 'a document of brim bench engine'))
  if (document.bench === 'hat') return ofHat(read(HatDocument, 'a document of brim bench hat'))
  if ('models' in document) return ofProfile(file, read(Profile, 'the profile of a device'), given)
  throw invalid(file, 'is neither a document of "brim bench engine" or "brim bench hat" nor the profile of a device')
}

/** The random model of that benchmark, in fp32 and by Brim's engine. */
function ofEngine({ conditions, runs }: z.output<typeof EngineDocument>): CalibrationMeasurements {
  const { small, packed } = conditions
  const shape: TransformerShape = {
    name: 'brim-bench-small',
    layers: small.num_hidden_layers,
    hidden: small.hidden_size,
    heads: small.num_attention_heads,
    kvHeads: small.num_key_value_heads,
    headDim: small.hidden_size / small.num_attention_heads,
    feedForward: small.intermediate_size,
    feedForwardMatrices: 3,
    vocabulary: small.vocab_size,
    tiesEmbedding: false,
    bytesPerWeight: 4,
    bytesPerKvValue: 4,
    source: 'conditions of brim bench engine',
  }
  const own = runs.filter(({ model, format, style }) => model === 'small' && format === 'fp32' && style === 'in-place')
  const steps = own.flatMap(({ measured, context, samplesMs }): MeasuredSteps[] => {
    const seconds = samplesMs.map((ms) => ms / 1_000)
    if (measured === 'decode') return [{ streams: 1, rows: 1, context, chosen: 1, seconds }]
    if (measured === 'prefill') return [{ streams: 1, rows: context, context: 0, chosen: 1, seconds }]
    if (measured === 'packed') return [{ streams: packed.sequences, rows: 1, context, chosen: packed.sequences, seconds }]
    // Single steps, which "decode" has measured already.
    return []
  })
  return { shape, part: wholeModel(shape), steps, origin: 'steps of brim bench engine' }
}

/** Rows of a stream from which on they are a prompt, from its beginning, rather than a draft somewhere in the answer. */
const promptRows = 64

/** The bridge's steps: of the layers after the first, which devices compute. The document does not say after which context. */
function ofHat({ conditions, runs }: z.output<typeof HatDocument>): CalibrationMeasurements {
  const shape = modelNamed(conditions.model)
  const steps = runs
    .filter(({ isVoid }) => !isVoid)
    .flatMap(({ stepSizes: { position, sizes } }) =>
      sizes.split(' ').flatMap((size): MeasuredSteps[] => {
        const [streams = 0, all = 0, number = 0, ms = 0] = size.split('/').map(Number)
        const rows = all / streams
        if (!(ms > 0 && rows >= 1)) return []
        const context = rows > promptRows ? 0 : 100 * Math.round((position ?? 0) / 100)
        return [{ streams, rows, context, chosen: 0, seconds: Array.from({ length: number }, () => ms / 1_000) }]
      }),
    )
  const number = steps.reduce((sum, { seconds }) => sum + seconds.length, 0)
  return { shape, part: layersOf(shape, 1, shape.layers), steps: grouped(steps), origin: `${number} steps of a bridge` }
}

/** Answers of the small model: a prompt, tokens one by one, and sequences together. */
function ofProfile(file: string, profile: z.output<typeof Profile>, given: string | undefined): CalibrationMeasurements {
  const { promptTokens, answerTokens, models } = profile
  const names = models.map(({ model }) => model)
  const model = given === undefined ? models[0]! : models.find((each) => each.model === given)
  if (!model) throw invalid(file, `has no model "${given}"; its models are ${names.join(', ')}`)
  const shape = modelNamed(model.model)
  const context = Math.round(promptTokens + answerTokens / 2)
  const steps = [
    { streams: 1, rows: promptTokens, context: 0, chosen: 1, seconds: [model.ttftMs / 1_000] },
    { streams: 1, rows: 1, context, chosen: 1, seconds: [model.tpotMs / 1_000] },
    ...model.parallel
      .filter(([sequences]) => sequences > 1)
      .map(([sequences, speedup]) => ({
        streams: sequences,
        rows: 1,
        context,
        chosen: sequences,
        seconds: [(sequences * model.tpotMs) / speedup / 1_000],
      })),
  ]
  return { shape, part: wholeModel(shape), steps, origin: `profile of a device, ${model.model}` }
}

/** Steps of the same size together. */
function grouped(steps: readonly MeasuredSteps[]): MeasuredSteps[] {
  const sizes = new Map<string, MeasuredSteps>()
  for (const step of steps) {
    const key = `${step.streams}/${step.rows}/${step.context}/${step.chosen}`
    const same = sizes.get(key)
    if (same) (same.seconds as number[]).push(...step.seconds)
    else sizes.set(key, { ...step, seconds: [...step.seconds] })
  }
  return [...sizes.values()]
}

const invalid = (file: string, problem: string, cause?: unknown) =>
  new BrimError('REQUEST_INVALID', `${file} ${problem}`, {
    cause,
    hint: 'give CSV with the columns rows, context and seconds, a document of brim bench engine or hat, or the profile of a device',
  })
