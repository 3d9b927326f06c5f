import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { concatStates, fromStates, sliceStates } from '../../wire/protocol/states.ts'
import { type GoldenVector, goldenError, goldenRows, goldenSteps, halfTolerance, parseGolden } from '../bundle/golden.ts'
import { draftOutput, type Manifest, type PartName } from '../bundle/manifest.ts'
import type { StepInput } from './contract.ts'
import { type LoadedModel, openModel } from './open-model.ts'
import type { Runtime } from './runtime.ts'

export interface PartTest {
  readonly part: PartName
  /** See GoldenVector.tolerance. */
  readonly error: number
  readonly tolerance: number
  readonly passed: boolean
}

/**
 * Runs the golden vector of one part on this machine: a first prompt, a chunk, a decode step. Loads only this part.
 * @throws BrimError BUNDLE_INVALID, and the errors of `openModel` and `Part.step`
 */
export async function testPart(
  runtime: Runtime,
  folder: string,
  manifest: Manifest,
  part: PartName,
  threads: number,
): Promise<PartTest> {
  const golden = await readGolden(folder, manifest, part)
  await using model = await openModel(runtime, folder, { parts: [part], threads })
  return await testLoaded(model, part, golden)
}

/** Runs the golden vectors of parts that are loaded. @throws BrimError BUNDLE_CORRUPT naming the parts that failed, and as `testPart` */
export async function testLoadedParts(model: LoadedModel, folder: string, parts: readonly PartName[]): Promise<void> {
  const tests: PartTest[] = []
  for (const part of parts) tests.push(await testLoaded(model, part, await readGolden(folder, model.manifest, part)))
  requirePassed(tests)
}

/** @throws BrimError BUNDLE_CORRUPT naming the parts whose self-test failed */
export function requirePassed(tests: readonly PartTest[]): void {
  const failed = tests.filter(({ passed }) => !passed).map(({ part }) => part)
  if (failed.length === 0) return
  throw new BrimError(
    'BUNDLE_CORRUPT',
    `the self-test of part ${failed.join(', ')} failed: its results differ from those of the machine that built it`,
    { hint: 'try another ONNX Runtime on this machine (ORT_LIB)' },
  )
}

async function testLoaded(model: LoadedModel, part: PartName, golden: GoldenVector): Promise<PartTest> {
  const error = goldenError(golden.expected, await runGolden(model, part, golden.input))
  const tolerance = model.type === 'float16' ? Math.max(golden.tolerance, halfTolerance) : golden.tolerance
  return { part, error, tolerance, passed: error <= tolerance }
}

async function readGolden(folder: string, manifest: Manifest, part: PartName): Promise<GoldenVector> {
  const own = manifest.parts[part]
  if (own === undefined) throw new BrimError('BUNDLE_INVALID', `${folder} has no part ${part}`)
  const golden = parseGolden(own.golden, await readFile(join(folder, own.golden), 'utf8'))
  const hint = 'copy the bundle again, or build it again with "brim model build"'
  if (takesFeatures(golden.input) !== (own.features === true) || takesBoth(golden.input) !== (own.draftHead !== undefined))
    throw new BrimError('BUNDLE_INVALID', `${folder}: part ${part} and its golden vector disagree about features`, { hint })
  if (!isWhole(golden, own.heads ?? 1))
    throw new BrimError('BUNDLE_INVALID', `${folder}: the golden vector of part ${part} does not cover every row`, { hint })
  return golden
}

/** A vector without rows would be passed by any part. */
function isWhole({ input, expected }: GoldenVector, perRow: number): boolean {
  const rows = input.kind === 'ids' ? input.ids.length : input.rows
  const columns = expected.columns?.length ?? expected.width
  return (
    rows === goldenRows && expected.rows === rows * perRow && columns > 0 && expected.values.length === expected.rows * columns
  )
}

const takesBoth = (input: GoldenVector['input']) => input.kind === 'states' && input.ids?.length === input.rows

const takesFeatures = (input: GoldenVector['input']) => input.kind === 'states' && input.features !== undefined

/** @returns [rows, width] of states or logits */
async function runGolden(model: LoadedModel, part: PartName, input: GoldenVector['input']): Promise<Float32Array> {
  if (input.kind === 'ids') return part === 'whole' ? runWhole(model, input.ids) : runPart(model, part, input)
  if (part === 'output') return model.head().logits(input)
  if (part === draftOutput) return model.head(part).logits(input)
  if (part === 'medusa') return model.medusa().guess(input)
  return runPart(model, part, input)
}

async function runPart(model: LoadedModel, name: PartName, input: GoldenVector['input']): Promise<Float32Array> {
  const part = model.part(name)
  const sequence = part.createSequence()
  const blocks = []
  for (const [from, to] of stepRanges())
    blocks.push(...(await part.step([{ sequence, select: 'all', ...sliceInput(input, from, to) }])))
  sequence.release()
  return fromStates(concatStates(blocks, model.manifest.dims.hidden))
}

function sliceInput(input: GoldenVector['input'], from: number, to: number): StepInput {
  if (input.kind === 'ids') return { ids: input.ids.slice(from, to) }
  const states = sliceStates(input, from, to)
  const features = input.features && sliceStates(input.features, from, to)
  return input.ids && features ? { ids: input.ids.slice(from, to), states, features } : { states, features }
}

async function runWhole(model: LoadedModel, ids: readonly number[]): Promise<Float32Array> {
  const chain = model.chain({ cuts: 'full' })
  const sequence = chain.createSequence()
  const { vocab } = model.manifest.dims
  const logits = new Float32Array(ids.length * vocab)
  for (const [from, to] of stepRanges())
    logits.set(await chain.step([{ sequence, ids: ids.slice(from, to), select: 'all' }]), from * vocab)
  sequence.release()
  return logits
}

/** [from, to) of each step over the golden rows. */
function stepRanges(): [number, number][] {
  let from = 0
  return goldenSteps.map((rows) => {
    from += rows
    return [from - rows, from]
  })
}
