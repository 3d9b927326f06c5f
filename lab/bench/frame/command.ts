import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { nowIso } from '../../../core/base/clock.ts'
import type { Io } from '../../../core/base/io.ts'
import { projectRoot } from '../../../core/base/version.ts'
import { type Command, defineCommand } from '../../../core/cli/command.ts'
import { flagsText } from '../../../core/cli/flags.ts'
import { layOutTable } from '../../plot/table.ts'
import type { Bench, BenchContext, BenchDocument } from './bench.ts'
import { goalTable } from './goals.ts'
import { loadAverage, machineConditions } from './machine.ts'
import { readDocument, requireWritable, saveResults } from './results.ts'

interface FrameOptions {
  readonly quick: boolean
  readonly save: boolean
  readonly out?: string | undefined
  readonly from?: string | undefined
  readonly json: boolean
}

const frameShape = (name: string, quickLimit: string) => ({
  quick: z.boolean().default(false).describe(`measure less, within ${quickLimit} on two cores`),
  save: z.boolean().default(false).describe(`write document, figure and page to docs/results/${name}/`),
  out: z.string().min(1).describe('folder to write document, figure and page to').optional(),
  from: z.string().min(1).describe('saved document to report again, without measuring').optional(),
})

/** `brim bench <name>`: measures, prints and saves. */
export function benchCommand<Options extends z.ZodRawShape>(bench: Bench<Options>): Command {
  const { name, quickLimit = '60 s', examples, options } = bench
  return defineCommand({
    examples: [
      [`brim bench ${name} --quick`, `a rougher measurement, within ${quickLimit}`],
      [`brim bench ${name} --json > ${name}.json`, 'every sample, as one document'],
      ...examples,
    ],
    options: { ...frameShape(name, quickLimit), ...options },
    run: (given, io) => runBench(bench, given as FrameOptions & z.output<z.ZodObject<Options>>, io),
  })
}

async function runBench<Options extends z.ZodRawShape>(
  bench: Bench<Options>,
  options: FrameOptions & z.output<z.ZodObject<Options>>,
  io: Io,
): Promise<void> {
  const { save, out, from, json } = options
  const folders = [
    ...(save ? [fileURLToPath(new URL(`docs/results/${bench.name}/`, projectRoot))] : []),
    ...(out === undefined ? [] : [resolve(out)]),
  ]
  for (const folder of folders) await requireWritable(folder)
  const document = from === undefined ? await measure(bench, options, io) : await readDocument(from, bench.name)
  for (const line of json ? [JSON.stringify(document)] : textOf(bench, document)) io.out(line)
  for (const folder of folders) {
    await saveResults(folder, document, bench.report, bench.goals)
    io.err(`saved to ${folder}`)
  }
}

async function measure<Options extends z.ZodRawShape>(
  bench: Bench<Options>,
  options: FrameOptions & z.output<z.ZodObject<Options>>,
  io: Io,
): Promise<BenchDocument> {
  const startedMs = performance.now()
  const tookS = () => (performance.now() - startedMs) / 1_000
  const before = { startedAt: nowIso(), loadAverageBefore: loadAverage() }
  const context: BenchContext = {
    quick: options.quick,
    io,
    progress(line) {
      io.signal.throwIfAborted()
      io.err(`${tookS().toFixed(0).padStart(4)} s  ${line}`)
    },
  }
  const { conditions, summary, runs } = await bench.run(context, options)
  const after = { loadAverageAfter: loadAverage(), tookS: Math.round(tookS()) }
  const flags = flagsText(z.strictObject(bench.options), options)
  const command = ['brim bench', bench.name, ...(options.quick ? ['--quick'] : []), ...flags].join(' ')
  return { bench: bench.name, conditions: { command, ...machineConditions(), ...before, ...after, ...conditions }, summary, runs }
}

function textOf(bench: Pick<Bench, 'report' | 'goals'>, document: BenchDocument): string[] {
  const tables = bench.report.tables?.(document) ?? []
  const { head, rows } = goalTable(document.summary, bench.goals)
  return [...tables.flatMap((table) => [table.title, '', ...layOutTable(table.head, table.rows), '']), ...layOutTable(head, rows)]
}
