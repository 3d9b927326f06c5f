import { writeFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { layOutTable } from '../../plot/table.ts'
import { type Constant, type Fit, fitHardware } from '../calibrate/fit-hardware.ts'
import { readMeasurements } from '../calibrate/read-measurements.ts'
import { hardwareFileText } from '../hardware/presets/hardware-file.ts'

/** Of the sizes of steps, those that were measured most often. */
const shownSizes = 24

const meaning: Readonly<Record<Constant, string>> = {
  bytesPerS: 'bytes read per second',
  flopPerS: 'FLOP per second',
  layerS: 'seconds per layer',
  streamS: 'seconds per layer and stream',
}

/** `brim simulate calibrate`: the cost model of a machine from measured steps. */
export const command = defineCommand({
  usage: '<file> --out this-machine.yaml',
  examples: [
    ['brim simulate calibrate docs/results/engine/engine.json --out this-machine.yaml', 'from a benchmark of the engine'],
    ['brim simulate calibrate steps.csv --model llama3-8b --out my-gpu.yaml', 'from CSV with rows, context, seconds and streams'],
    ['brim simulate calibrate profile.json --out board.yaml', 'from the output of a "profile" job of a device'],
  ],
  notes:
    'A scenario names the file that this writes in place of a preset: "cloud.gpu: ./this-machine.yaml", or "board" of devices.\n' +
    'The model is a roofline: weights and KV over bytes/s, FLOP over FLOP/s, and times per layer and stream that nothing reduces.',
  options: {
    file: z.string().describe('measured steps: CSV, a document of brim bench engine or hat, or the profile of a device'),
    model: z.string().optional().meta({ description: 'preset of the model that was measured', fallback: 'what the file names' }),
    name: z.string().min(1).default('this-machine').describe('name of the machine'),
    memoryGib: z.number().positive().optional().meta({ description: 'its memory in GiB', fallback: 'this machine’s' }),
    out: z.string().min(1).optional().meta({ description: 'file to write', fallback: 'none: print' }),
  },
  async run({ file, model, name, memoryGib, out, json }, io) {
    const measurements = await readMeasurements(file, model)
    const fit = fitHardware(measurements, measurements.steps, {
      name,
      memoryBytes: memoryGib === undefined ? totalmem() : memoryGib * 2 ** 30,
      hostBytesPerS: 10e9,
      peerBytesPerS: 10e9,
      gpus: 1,
      source: `brim simulate calibrate: ${measurements.origin}, ${measurements.shape.name}`,
    })
    const { medianError, p95Error, unknown } = fit
    const text = hardwareFileText(fit.hardware, [
      `Fitted to ${measurements.origin}: |error| of the median step ${percent(medianError)}, of the 95th of 100 ${percent(p95Error)}.`,
      ...unknownNotes(unknown),
    ])
    if (json) io.out(JSON.stringify({ ...fit, steps: fit.steps.map(({ seconds, ...step }) => ({ ...step, n: seconds.length })) }))
    else for (const line of reportOf(fit)) io.out(line)
    if (out === undefined) {
      if (!json) io.out(text.trimEnd())
      return
    }
    await writeFile(out, text).catch((cause: unknown) => {
      throw new BrimError('TARGET_UNWRITABLE', `${out} cannot be written`, { cause, hint: 'name another file with --out' })
    })
    io.err(`saved to ${out}`)
  },
})

const unknownNotes = (unknown: readonly Constant[]) =>
  unknown.map((constant) => `${constant} (${meaning[constant]}) never bounds a step in these measurements: it may be far better.`)

function reportOf({ steps, medianError, p95Error, unknown, hardware }: Fit): string[] {
  const common = [...steps].sort((a, b) => b.seconds.length - a.seconds.length).slice(0, shownSizes)
  common.sort((a, b) => a.streams - b.streams || a.rows - b.rows || a.context - b.context)
  const rows = common.map((step) => [
    String(step.streams),
    String(Number(step.rows.toFixed(1))),
    String(step.context),
    String(step.seconds.length),
    (1_000 * step.medianS).toPrecision(4),
    (1_000 * step.predictedS).toPrecision(4),
    percent(step.error),
  ])
  const more = steps.length - common.length
  return [
    ...layOutTable(['streams', 'rows of each', 'after', 'n', 'measured ms', 'fitted ms', 'error'], rows),
    ...(more > 0 ? [`and ${more} sizes that were measured less often`] : []),
    '',
    ...(Object.keys(meaning) as Constant[]).map((key) => `${meaning[key]}: ${hardware[key].toPrecision(4)}`),
    `|error| of the median step ${percent(medianError)}, of the 95th of 100 ${percent(p95Error)}`,
    ...unknownNotes(unknown),
    '',
  ]
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
