import type { z } from 'zod'
import type { Bench, BenchContext, BenchDocument, BenchReport, BenchResult, Goals, Shown } from './bench.ts'

/** How a figure follows from the runs, and its goal where it has one. */
export type FigureRow<Run> = readonly [of: (runs: readonly Run[]) => number | null, goal?: Goals[string]]

/** What a measurement returns. */
export interface MeasuredRuns<Run> {
  readonly conditions: BenchResult['conditions']
  readonly runs: readonly Run[]
}

/** A document whose runs are of one kind. */
export type DocumentOf<Run> = Omit<BenchDocument, 'runs'> & MeasuredRuns<Run>

/** What a benchmark shows of its runs; without tables and findings where it has none. */
export type ShownRuns = Pick<Shown, 'figure' | 'conditions'> & Partial<Pick<Shown, 'tables' | 'findings'>>

/** A benchmark as a table of figures: each by its name, what makes it of the runs, and its goal. */
interface TabledBench<Run extends object, Options extends z.ZodRawShape>
  extends Pick<Bench<Options>, 'name' | 'quickLimit' | 'quickRepetitions' | 'isTimeless'>,
    Partial<Pick<Bench<Options>, 'options' | 'examples'>>,
    Pick<BenchReport, 'title' | 'contents' | 'figureText'> {
  readonly figures: Readonly<Record<string, FigureRow<Run>>>
  measure(context: BenchContext, options: z.output<z.ZodObject<Options>>): Promise<MeasuredRuns<Run>>
  show(document: DocumentOf<Run>): ShownRuns
  keptRuns?(document: DocumentOf<Run>): BenchDocument['runs']
}

export function tabledBench<Run extends object, Options extends z.ZodRawShape = Record<never, never>>(
  bench: TabledBench<Run, Options>,
): Bench<Options> & { resultOf(measured: MeasuredRuns<Run>): BenchResult } {
  const { title, contents, figureText, figures, measure, show, keptRuns, ...rest } = bench
  const shown = (document: BenchDocument) => show(document as unknown as DocumentOf<Run>)
  const rows = Object.entries(figures)
  const resultOf = ({ conditions, runs }: MeasuredRuns<Run>): BenchResult => {
    return { conditions, summary: Object.fromEntries(rows.map(([name, [of]]) => [name, of(runs)])), runs }
  }
  return {
    options: {} as Options,
    examples: [],
    ...rest,
    goals: Object.fromEntries(rows.flatMap(([name, [, goal]]) => (goal ? [[name, goal]] : []))),
    run: async (context, options) => resultOf(await measure(context, options)),
    resultOf,
    report: {
      title,
      contents,
      figureText,
      figure: (document) => shown(document).figure,
      tables: (document) => shown(document).tables ?? [],
      findings: (document) => shown(document).findings ?? null,
      conditions: (document) => shown(document).conditions,
      ...(keptRuns && { keptRuns: (document: BenchDocument) => keptRuns(document as unknown as DocumentOf<Run>) }),
    },
  }
}
