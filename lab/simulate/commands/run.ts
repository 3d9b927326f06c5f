import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../../core/base/errors.ts'
import type { Io } from '../../../core/base/io.ts'
import { defineCommand } from '../../../core/cli/command.ts'
import { showProgress } from '../../../core/commands/progress.ts'
import { dataOption, defaultDataFolder } from '../run/data-folder.ts'
import { runAll } from '../run/run-all.ts'
import { parseScenarioFile } from '../scenario/scenario-file.ts'
import { type Outcome, resultLines } from './result-text.ts'

export const command = defineCommand({
  examples: [
    ['brim simulate run fleet.yaml', 'one scenario, or all of its sweep'],
    ['brim simulate run fleet.yaml --set cloud.gpu=h100 --set workload.arrivals.perS=8', 'with other values of two fields'],
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
    seed: z.int().meta({ description: 'of chance, in place of that of the scenario', fallback: 'that of the file' }).optional(),
    workers: z
      .int()
      .min(1)
      .meta({ description: 'threads that run the scenarios of a sweep', fallback: 'one for each core' })
      .optional(),
    data: dataOption,
  },
  async run({ file, set, seed, workers = availableParallelism(), data = defaultDataFolder(), json }, io) {
    const variants = parseScenarioFile(await readScenario(file), file, [...set, ...(seed === undefined ? [] : [`seed=${seed}`])])
    const outcomes = await simulate(variants, { workers, folders: [dirname(resolve(file)), data] }, io)
    if (json) io.out(JSON.stringify({ isComplete: outcomes.every(isComplete), runs: outcomes }))
    else for (const line of resultLines(outcomes)) io.out(line)
    io.signal.throwIfAborted()
  },
})

const isComplete = ({ result }: Outcome): boolean => result?.isComplete === true

async function simulate(
  variants: ReturnType<typeof parseScenarioFile>,
  options: { readonly workers: number; readonly folders: readonly string[] },
  io: Io,
): Promise<Outcome[]> {
  const progress = showProgress(io)
  const label = variants.length === 1 ? variants[0]!.scenario.name : `${variants[0]!.scenario.name}, ${variants.length} variants`
  const results = await runAll(
    variants.map(({ scenario }) => scenario),
    { ...options, signal: io.signal, onProgress: (share) => progress.update(label, share) },
  )
  progress.end()
  return variants.map(({ swept }, i) => ({ swept, result: results[i] }))
}

/** @throws BrimError CONFIG_INVALID */
function readScenario(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: unknown) => {
    throw new BrimError('CONFIG_INVALID', `the scenario file ${file} cannot be read`, { cause, hint: 'check the path' })
  })
}
