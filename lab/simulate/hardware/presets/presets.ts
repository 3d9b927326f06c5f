import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { z } from 'zod'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { projectRoot } from '../../../../core/kit/base/version.ts'
import { nearestWord } from '../../../../core/kit/cli/nearest-word.ts'
import { type Board, powerSchema } from '../board.ts'
import { noThrottling, throttlingSchema } from '../heat.ts'
import type { TransformerShape } from '../model-shape.ts'
import type { Hardware } from '../roofline.ts'

const positive = z.number().positive()
const count = z.int().positive()
const name = z.string().min(1)

/** What a maker states, or a paper has measured, and what is reached of it. */
const Machine = z.strictObject({
  name,
  sheet: z.strictObject({
    gibibytes: positive,
    gigabytesPerS: positive,
    teraflopPerS: positive,
    layerS: positive,
    host: positive.optional(),
    peer: positive.optional(),
  }),
  reaches: z.strictObject({ memory: positive, compute: positive, host: positive.default(1) }),
  source: name,
})

const Presets = z.object({
  gpus: z.array(Machine),
  boards: z.array(
    Machine.extend({
      power: powerSchema,
      powerModes: z.record(z.string(), positive.max(1)).default({ normal: 1 }),
      throttling: throttlingSchema.default(noThrottling),
      measured: z.record(z.string(), z.strictObject({ prefillTokensPerS: positive, decodeTokensPerS: positive })).default({}),
    }),
  ),
  models: z.array(
    z.strictObject({
      tiesEmbedding: z.boolean(),
      feedForwardMatrices: count,
      bytesPerValue: count,
      shapes: z.record(z.string(), z.tuple([count, count, count, count, count, count, name])),
    }),
  ),
})

const presets = Presets.parse(parse(readFileSync(new URL('lab/simulate/hardware/presets/presets.yaml', projectRoot), 'utf8')))

function hardwareOf({ name, sheet, reaches, source }: z.output<typeof Machine>): Hardware {
  const bytesPerS = reaches.memory * sheet.gigabytesPerS * 1e9
  // Where there is no bus, CPU and GPU have one memory.
  const busBytesPerS = (rate = sheet.host) => (rate === undefined ? bytesPerS / 2 : reaches.host * rate * 1e9)
  return {
    name,
    memoryBytes: sheet.gibibytes * 2 ** 30,
    bytesPerS,
    flopPerS: reaches.compute * sheet.teraflopPerS * 1e12,
    layerS: sheet.layerS,
    streamS: 0,
    hostBytesPerS: busBytesPerS(),
    peerBytesPerS: busBytesPerS(sheet.peer),
    gpus: 1,
    source,
  }
}

export const gpus: readonly Hardware[] = presets.gpus.map(hardwareOf)

export const boards: readonly Board[] = presets.boards.map((board) => ({
  name: board.name,
  hardware: hardwareOf(board),
  power: board.power,
  powerModes: Object.entries(board.powerModes).map(([name, speed]) => ({ name, speed })),
  throttling: board.throttling,
  measured: board.measured,
  source: board.source,
}))

export const models: readonly TransformerShape[] = presets.models.flatMap(({ shapes, bytesPerValue, ...kind }) =>
  Object.entries(shapes).map(([name, [layers, hidden, heads, kvHeads, feedForward, vocabulary, repository]]) => ({
    ...{ name, layers, hidden, heads, kvHeads, feedForward, vocabulary, ...kind },
    headDim: hidden / heads,
    bytesPerWeight: bytesPerValue,
    bytesPerKvValue: bytesPerValue,
    source: `config.json of ${repository}`,
  })),
)

/** @throws BrimError USAGE */
export const gpuNamed = (name: string): Hardware => presetNamed(gpus, 'GPU', name)
/** @throws BrimError USAGE */
export const boardNamed = (name: string): Board => presetNamed(boards, 'board', name)
/** @throws BrimError USAGE */
export const modelNamed = (name: string): TransformerShape => presetNamed(models, 'model', name)

/** Upper and lower case are the same. @throws BrimError USAGE with the most similar name, or all of them */
function presetNamed<Preset extends { readonly name: string }>(presets: readonly Preset[], kind: string, name: string): Preset {
  const wanted = name.toLowerCase()
  const preset = presets.find((candidate) => candidate.name === wanted)
  if (preset) return preset
  const names = presets.map((candidate) => candidate.name)
  const nearest = nearestWord(wanted, names)
  throw new BrimError('USAGE', `there is no ${kind} preset "${name}"; the presets are ${names.join(', ')}`, {
    hint: nearest === undefined ? 'brim simulate presets shows what they are' : `did you mean "${nearest}"?`,
  })
}
