import type { z } from 'zod'
import type { Bench, BenchContext, BenchDocument, BenchReport, BenchResult, Goals, Shown, Summary } from './bench.ts'

/** How a figure follows from the runs, and its goal where it has one. Null: not measured. Undefined: not of these runs. */
export type FigureRow<Run> = readonly [of: (runs: readonly Run[]) => number | null | undefined, goal?: Goals[string]]

/** Figures by name. */
export type FigureTable<Run> = Readonly<Record<string, FigureRow<Run>>>

/** What a measurement returns. */
export interface MeasuredRuns<Run> {
  readonly conditions: BenchResult['conditions']
  readonly runs: readonly Run[]
}

/** A document whose runs are of one kind. */
export type DocumentOf<Run> = Omit<BenchDocument, 'runs'> & MeasuredRuns<Run>

/** What a benchmark shows of its runs; without tables and findings where it has none. */
export type ShownRuns = Pick<Shown, 'figure' | 'conditions'> & Partial<Pick<Shown, 'tables' | 'findings'>>

interface RunsReport<Run> extends Pick<BenchReport, 'title' | 'contents' | 'figureText'> {
  show(document: DocumentOf<Run>): ShownRuns
  keptRuns?: ((runs: readonly Run[]) => BenchDocument['runs']) | undefined
}

/** The report of documents whose runs are of one kind. */
export function reportOf<Run extends object>({ show, keptRuns, ...texts }: RunsReport<Run>): BenchReport {
  const shown = (document: BenchDocument) => show(document as unknown as DocumentOf<Run>)
  return {
    ...texts,
    figure: (document) => shown(document).figure,
    tables: (document) => shown(document).tables ?? [],
    findings: (document) => shown(document).findings ?? null,
    conditions: (document) => shown(document).conditions,
    ...(keptRuns && { keptRuns: ({ runs }: BenchDocument) => keptRuns(runs as readonly Run[]) }),
  }
}

/** A benchmark as a table of figures: each by its name, what makes it of the runs, and its goal. */
interface TabledBench<Run extends object, Options extends z.ZodRawShape>
  extends Pick<Bench<Options>, 'name' | 'commandLine' | 'quickLimit' | 'quickRepetitions' | 'isTimeless'>,
    Partial<Pick<Bench<Options>, 'options' | 'examples'>>,
    RunsReport<Run> {
  readonly figures: FigureTable<Run>
  measure(context: BenchContext, options: z.output<z.ZodObject<Options>>): Promise<MeasuredRuns<Run>>
}

export function tabledBench<Run extends object, Options extends z.ZodRawShape = Record<never, never>>(
  bench: TabledBench<Run, Options>,
): Bench<Options> & { resultOf(measured: MeasuredRuns<Run>): BenchResult } {
  const { title, contents, figureText, figures, measure, show, keptRuns, ...rest } = bench
  const rows = Object.entries(figures)
  const resultOf = ({ conditions, runs }: MeasuredRuns<Run>): BenchResult => {
    const values = rows.map(([name, [of]]) => [name, of(runs)] as const)
    return { conditions, summary: Object.fromEntries(values.filter(([, value]) => value !== undefined)) as Summary, runs }
  }
  return {
    options: {} as Options,
    examples: [],
    ...rest,
    goals: Object.fromEntries(rows.flatMap(([name, [, goal]]) => (goal ? [[name, goal]] : []))),
    run: async (context, options) => resultOf(await measure(context, options)),
    resultOf,
    report: reportOf({ title, contents, figureText, show, keptRuns }),
  }
}
