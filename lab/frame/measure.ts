import { cpus, loadavg, totalmem } from 'node:os'
import { z } from 'zod'
import { nowIso } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { version } from '../../core/kit/base/version.ts'
import { flagsText } from '../../core/kit/cli/flags.ts'
import type { Bench, BenchDocument, BenchResult } from './bench.ts'
import { currentCommit } from './commit.ts'
import { disturbanceOf, ForeignLoadMeter, type LoadedMachine } from './foreign-load.ts'
import { commandLineOf } from './results.ts'
import { medianSummary } from './spread.ts'

const standardRepetitions = 3

interface MeasureOptions {
  readonly quick: boolean
  /** Returns the figures of a disturbed run too. */
  readonly despiteLoad: boolean
}

/**
 * Runs a benchmark, a quick one several times, and watches what other processes use meanwhile.
 * @throws BrimError MACHINE_BUSY when other processes disturbed it, and what the benchmark throws
 */
export async function measure<Options extends z.ZodRawShape>(
  bench: Bench<Options>,
  given: MeasureOptions & z.output<z.ZodObject<Options>>,
  io: Io,
  machine: LoadedMachine,
): Promise<BenchDocument> {
  const { quick, despiteLoad } = given
  const line = commandLineOf(bench)
  const isGuarded = !bench.isTimeless && !despiteLoad
  const rejectLoad = (load: Parameters<typeof disturbanceOf>[0] | undefined) => {
    const disturbance = isGuarded && load && disturbanceOf(load)
    if (disturbance) throw machineBusy(line, disturbance)
  }
  const meter = new ForeignLoadMeter(machine)
  if (isGuarded) {
    const before = await meter.measureBefore(io.signal)
    if (before !== undefined) rejectLoad({ before })
  }
  const startedMs = performance.now()
  const tookS = () => (performance.now() - startedMs) / 1_000
  const before = { startedAt: nowIso(), loadAverageBefore: loadAverage() }
  const commit = currentCommit()
  const progress = (text: string) => {
    io.signal.throwIfAborted()
    meter.sample()
    // The worst window exceeds its limit for good: the rest of the run would be measured for nothing.
    rejectLoad({ max: meter.max })
    io.err(`${tookS().toFixed(0).padStart(4)} s  ${text}`)
  }
  const repetitions = quick && !bench.isTimeless ? (bench.quickRepetitions ?? standardRepetitions) : 1
  const results: BenchResult[] = []
  meter.start()
  try {
    while (results.length < repetitions) {
      if (repetitions > 1) progress(`repetition ${results.length + 1} of ${repetitions}`)
      results.push(await bench.run({ quick, io, progress }, given))
    }
  } catch (error) {
    // After Ctrl-C, every other failure is a consequence of it.
    throw io.signal.aborted ? new BrimError('CANCELED', 'the benchmark was interrupted', { cause: error }) : error
  } finally {
    meter.stop()
  }
  const foreignLoad = meter.load()
  rejectLoad(foreignLoad)
  const { conditions, summary, runs } = results[0]!
  const after = { loadAverageAfter: loadAverage(), foreignLoad: foreignLoad ?? null, tookS: Math.round(tookS()) }
  const command = [line, ...(quick ? ['--quick'] : []), ...flagsText(z.strictObject(bench.options), given)].join(' ')
  const summaries = results.map((result) => result.summary)
  return {
    bench: bench.name,
    conditions: { command, ...machineConditions(), commit, ...before, ...after, ...conditions },
    summary: repetitions === 1 ? summary : medianSummary(summaries),
    runs,
    ...(repetitions === 1 ? {} : { repetitions: summaries }),
  }
}

const machineBusy = (line: string, disturbance: string) =>
  new BrimError('MACHINE_BUSY', `the figures of ${line} would be void: ${disturbance}`, {
    hint: 'repeat it once the other processes have ended; --despite-load prints figures all the same',
  })

/** Of the last minute. */
const loadAverage = (): number => loadavg()[0] ?? 0

function machineConditions(): Record<string, unknown> {
  return {
    brim: version,
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
  }
}
