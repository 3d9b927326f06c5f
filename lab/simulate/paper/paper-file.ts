import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { z } from 'zod'
import { projectRoot } from '../../../core/kit/base/version.ts'

const Scalar = z.union([z.string(), z.number()])
/** What a run must have, by name. */
const Selection = z.record(z.string(), Scalar)
/** Left out where there are no such runs. */
const Needs = Selection.default({})
/** What it applies to: the value of each name, or one of several. */
const When = z.record(z.string(), z.union([Scalar, z.array(Scalar)])).default({})
/** A value of each name at a time, the last name varying fastest; `all`: every value that the runs have. */
const Each = z.record(z.string(), z.union([z.array(Scalar), z.literal('all')]))

const Quantity = z.strictObject({
  /** A number of a run; of several runs, their mean. */
  figure: z.string(),
  of: Selection.default({}),
  /** What differs in the run that it is set in relation to. */
  over: Selection.optional(),
  as: z.enum(['ratio', 'inverse', 'share cut', 'percent cut', 'percent change', 'share gain']).default('ratio'),
  /** Computed for each of these, and then summarised. */
  across: Each.default({}),
  by: z.enum(['mean', 'min', 'max']).default('mean'),
})

/** What a text may name, beside what is varied: quantities, and runs whose fields follow a point. */
const Values = z.record(z.string(), z.union([Quantity, z.strictObject({ run: Selection })])).default({})

const Remark = z.strictObject({ when: When, text: z.string(), values: Values })

const Cell = z.strictObject({
  ...Quantity.shape,
  metric: z.string(),
  unit: z.string().default(''),
  /** Path below `published`. A value of null is a curve without numbers; where there is none, there is no cell. */
  paper: z.union([z.array(Scalar), z.null()]),
  /** What differs in the run with Brim's additions, and for which cells there is one. */
  improved: z.strictObject({ when: When, of: Selection }).optional(),
  /** Why it differs: the first that applies. */
  remarks: z.array(Remark).default([]),
})

const CellGroup = z.strictObject({
  place: z.string(),
  row: z.string(),
  each: Each.default({}),
  of: Selection.default({}),
  needs: Needs,
  cells: z.array(Cell),
})

/** Values of runs as they are shown. */
const Names = z.record(z.string(), z.record(z.string(), z.string()))

const LinePanel = z.strictObject({
  kind: z.literal('lines'),
  title: z.string(),
  xLabel: z.string(),
  yLabel: z.string(),
  isDense: z.boolean().optional(),
  each: Each.default({}),
  of: Selection,
  /** The name whose values are the lines, in this order; lines without runs are left out. */
  series: z.strictObject({ by: z.string(), values: z.array(Scalar) }),
  needs: Needs,
  /** Names of a run's numbers, of which y is a mean, or of its list of points. */
  points: z.union([z.strictObject({ x: z.string(), y: z.string() }), z.string()]),
})

const BarPanel = z.strictObject({
  kind: z.literal('bars'),
  title: z.string(),
  yLabel: z.string(),
  needs: Needs,
  each: Each,
  label: z.string(),
  /** In place of the file's. */
  names: Names.optional(),
  of: Selection,
  bars: z.array(z.strictObject({ name: z.string(), of: Selection })),
  ...Quantity.pick({ figure: true, over: true, as: true }).shape,
})

const RunTable = z.strictObject({
  title: z.string(),
  rows: z.array(
    z.strictObject({
      each: Each.default({}),
      of: Selection.default({}),
      labels: z.array(z.string()),
      needs: Needs,
    }),
  ),
  labels: z.array(z.string()).default(['']),
  /** Texts of a run's fields. */
  columns: z.array(z.strictObject({ head: z.string(), of: Selection.default({}), text: z.string() })),
})

/** Of a scenario, or published values: what reads them has a schema. */
const Part = z.record(z.string(), z.unknown())

/** What a paper publishes, how it is simulated, and how the two are shown side by side. */
export const PaperFile = z.strictObject({
  title: z.string(),
  contents: z.string(),
  goals: z.record(z.string(), z.union([z.strictObject({ min: z.number() }), z.strictObject({ max: z.number() })])),
  /** What the paper prints: cells name numbers of it, and code reads more by `publishedAs`. */
  published: Part,
  /** For the code that makes scenarios, and for texts. */
  constants: z.record(z.string(), z.number()).default({}),
  scenario: z.strictObject({
    base: Part,
    /** What a setting's value of a name changes. */
    by: z.record(z.string(), z.record(z.string(), Part)).default({}),
    /** Every device of the scenario, but for what a setting changes in it. */
    device: Part.default({}),
  }),
  /** Settings that are run, with fields that are no single values; with --quick, with other values of some names. */
  experiments: z.array(z.strictObject({ each: Each, with: Part.default({}), quick: Each.default({}) })),
  names: Names.default({}),
  cells: z.array(CellGroup),
  /** Names of counts of cells, and quantities. */
  counts: z.record(z.string(), z.enum(['compared', 'within', 'withinShare', 'explained', 'unexplained', 'orderingsKept'])),
  summary: z.record(z.string(), Quantity).default({}),
  figure: z.strictObject({
    title: z.string(),
    subtitle: z.string(),
    columns: z.int(),
    text: z.string(),
    panels: z.array(z.discriminatedUnion('kind', [LinePanel, BarPanel])),
  }),
  tables: z.array(RunTable).default([]),
  /** Of findings and conditions. */
  values: Values,
  findings: z.string().optional(),
  conditions: z.string(),
})
export type PaperFile = z.infer<typeof PaperFile>
export type Scalar = z.infer<typeof Scalar>
export type Selection = z.infer<typeof Selection>
export type When = z.infer<typeof When>
export type Each = z.infer<typeof Each>
export type Quantity = z.infer<typeof Quantity>
export type Values = z.infer<typeof Values>

/** The laboratory runs in a checkout, whose file this is. */
export function readPaper(name: 'hat' | 'pice' | 'disco' | 'tokenflow'): PaperFile {
  const file = new URL(`lab/simulate/paper/${name}/${name}.yaml`, projectRoot)
  return PaperFile.parse(parse(readFileSync(file, 'utf8'), { merge: true, maxAliasCount: -1 }))
}

/** @throws ZodError where the file has something else */
export const publishedAs = <Schema extends z.ZodType>({ published }: PaperFile, name: string, schema: Schema): z.output<Schema> =>
  schema.parse(published[name])
