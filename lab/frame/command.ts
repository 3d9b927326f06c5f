import { resolve } from 'node:path'
import { z } from 'zod'
import { systemClock } from '../../core/kit/base/clock.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { type Command, defineCommand, type OptionsOf } from '../../core/kit/cli/command.ts'
import { readCpuTimes } from '../cluster/cpu-times.ts'
import { layOutTable } from '../plot/table.ts'
import type { Bench, BenchDocument } from './bench.ts'
import type { LoadedMachine } from './foreign-load.ts'
import { measure } from './measure.ts'
import { despiteLoadOption, textOption } from './options.ts'
import { goalTable, shownOf } from './page.ts'
import { commandLineOf, createFolder, readDocument, resultFolder, savedDocument, saveResults } from './results.ts'

const frameShape = (name: string, quickLimit: string) => ({
  quick: z.boolean().default(false).describe(`measure less, within ${quickLimit} on two cores`),
  save: z.boolean().default(false).describe(`write document, figure and page to docs/results/${name}/`),
  out: textOption('folder to write every sample, figure and page to', 'none'),
  from: textOption('saved document to report again, without measuring', 'none: measure'),
  despiteLoad: despiteLoadOption,
})

/** That each benchmark's own ones follow. */
const standardExamples = 2

type Given<Options extends z.ZodRawShape> = OptionsOf<ReturnType<typeof frameShape>> & z.output<z.ZodObject<Options>>

/** `brim bench <name>`, or the command line that it names: measures, prints and saves. */
export function benchCommand<Options extends z.ZodRawShape>(
  bench: Bench<Options>,
  machine: LoadedMachine = { cpuTimes: readCpuTimes, clock: systemClock },
): Command {
  const { name, quickLimit = '60 s', examples, options } = bench
  const line = commandLineOf(bench)
  return defineCommand({
    examples: [
      [`${line} --quick`, `a rougher measurement, within ${quickLimit}`],
      [`${line} --json > ${name}.json`, 'every sample, as one document'],
      ...examples,
    ],
    options: { ...frameShape(name, quickLimit), ...options },
    run: (given, io) => runBench(bench, given as Given<Options>, io, machine),
  })
}

/** One command of several benchmarks: the first of these whose option is given, else the usual one. */
export function eitherCommand(usual: Command, others: Readonly<Record<string, Command>>): Command {
  const more = Object.values(others)
  const flags = [usual, ...more].flatMap((each) => each.flags)
  return {
    ...usual,
    flags: flags.filter(({ name }, at) => flags.findIndex((flag) => flag.name === name) === at),
    examples: [...(usual.examples ?? []), ...more.flatMap(({ examples = [] }) => examples.slice(standardExamples))],
    run(values, ...rest) {
      const [, chosen = usual] = Object.entries(others).find(([name]) => values[name] !== undefined) ?? []
      return chosen.run(values, ...rest)
    },
  }
}

async function runBench<Options extends z.ZodRawShape>(
  bench: Bench<Options>,
  given: Given<Options>,
  io: Io,
  machine: LoadedMachine,
): Promise<void> {
  const { save, out, from, json } = given
  const folders = [
    ...(save ? [{ folder: resultFolder(bench.name), isWhole: false }] : []),
    ...(out === undefined ? [] : [{ folder: resolve(out), isWhole: true }]),
  ]
  for (const { folder } of folders) await createFolder(folder)
  const document = from === undefined ? await measure(bench, given, io, machine) : await readDocument(from, bench)
  for (const line of json ? [JSON.stringify(document)] : textOf(bench, document)) io.out(line)
  for (const { folder, isWhole } of folders) {
    await saveResults(folder, isWhole ? document : savedDocument(document, bench.report), bench.report, bench.goals)
    io.err(`saved to ${folder}`)
  }
}

function textOf(bench: Pick<Bench, 'report' | 'goals'>, document: BenchDocument): string[] {
  const { tables } = shownOf(document, bench.report)
  const { head, rows } = goalTable(document, bench.goals)
  return [...tables.flatMap((table) => [table.title, '', ...layOutTable(table.head, table.rows), '']), ...layOutTable(head, rows)]
}
