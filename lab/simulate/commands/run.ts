import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { showProgress } from '../../../core/commands/progress.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { sweepRecords } from '../results/sweep-records.ts'
import { dataOption, defaultDataFolder } from '../run/data-folder.ts'
import { runAll } from '../run/run-all.ts'
import { parseScenarioFile, type Variant } from '../scenario/scenario-file.ts'
import { type RunOutcome, resultLines } from './result-text.ts'

export const command = defineCommand({
  examples: [
    ['brim simulate run fleet.yaml', 'one scenario, or all of its sweep'],
    ['brim simulate run fleet.yaml --set cloud.gpu=h100 --set workload.arrivals.perS=8', 'with other values of two fields'],
    ['brim simulate run fleet.yaml --records answers.csv', 'with a line for each answer, as for a spreadsheet'],
    ["brim simulate run fleet.yaml --json | jq '.runs[].result.all.ttftMs.p95'", 'every figure, as one document'],
  ],
  notes: 'Ctrl-C ends the run with the results so far. docs/simulator.md describes scenario files and results.',
  options: {
    file: z.string().min(1).describe('scenario file (YAML or JSON)'),
    set: z.array(z.string()).default([]).meta({
      description:
        'a field by its path and its value, as in cloud.gpus=2; items of lists by name or number, as in devices.phones.count=5',
      fallback: 'none',
    }),
    seed: z.int().optional().meta({ description: 'of chance, in place of that of the scenario', fallback: 'that of the file' }),
    workers: z
      .int()
      .min(1)
      .optional()
      .meta({ description: 'threads that run the scenarios of a sweep', fallback: 'one for each core' }),
    records: z.string().min(1).optional().meta({
      description: 'file that gets a line for each answer: CSV where its name ends in .csv, else JSON',
      fallback: 'none',
    }),
    data: dataOption,
  },
  async run({ file, set, seed, workers = availableParallelism(), data = defaultDataFolder(), records, json }, io) {
    const variants = parseScenarioFile(await readScenario(file), file, [...set, ...(seed === undefined ? [] : [`seed=${seed}`])])
    const outcomes: RunOutcome[] = variants.map(({ swept }) => ({ swept, result: undefined }))
    const show = () => {
      if (json) io.out(JSON.stringify({ isComplete: outcomes.every(isComplete), runs: outcomes }))
      else for (const line of resultLines(outcomes)) io.out(line)
    }
    try {
      await simulate(variants, outcomes, { workers, folders: [dirname(resolve(file)), data], records }, io)
    } catch (error) {
      // What has come to its end before is not lost.
      if (outcomes.some(isComplete)) show()
      throw error
    }
    show()
    io.signal.throwIfAborted()
  },
})

const isComplete = ({ result }: RunOutcome): boolean => result?.isComplete === true

/** As in `cloud.gpu=h100, seed=2`. */
const sweptText = (swept: Variant['swept']): string =>
  Object.entries(swept)
    .map(([path, value]) => `${path}=${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
    .join(', ')

interface SimulateOptions {
  readonly workers: number
  readonly folders: readonly string[]
  readonly records: string | undefined
}

/** @param outcomes get the results */
async function simulate(
  variants: readonly Variant[],
  outcomes: RunOutcome[],
  { records, ...options }: SimulateOptions,
  io: Io,
): Promise<void> {
  const progress = showProgress(io)
  const label = variants.length === 1 ? variants[0]!.scenario.name : `${variants[0]!.scenario.name}, ${variants.length} variants`
  const files =
    records === undefined
      ? undefined
      : sweepRecords(
          records,
          variants.map(({ swept }) => swept),
        )
  try {
    await runAll(
      variants.map(({ scenario }) => scenario),
      {
        ...options,
        records: files?.targets,
        signal: io.signal,
        nameOf: (at) => sweptText(variants[at]!.swept),
        onProgress: (share) => progress.update(label, share),
        onResult: (at, result) => {
          outcomes[at] = { swept: variants[at]!.swept, result }
        },
      },
    )
  } finally {
    progress.end()
    await files?.join()
  }
}

/** @throws BrimError CONFIG_INVALID */
function readScenario(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: unknown) => {
    throw new BrimError('CONFIG_INVALID', `the scenario file ${file} cannot be read`, { cause, hint: 'check the path' })
  })
}
