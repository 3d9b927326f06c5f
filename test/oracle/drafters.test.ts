import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { drafterParts, type PartName } from '../../core/model/bundle/manifest.ts'
import type { StepInput } from '../../core/model/engine/contract.ts'
import { openBundle } from '../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../core/model/engine/open-model.ts'
import type { States } from '../../core/wire/protocol/states.ts'
import { rowsOf } from '../support/plain-math.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

// Made by scripts/train/oracle/make_drafters.py: a checkpoint as training exports it, and the outputs of the trained modules.
const fixture = fileURLToPath(new URL('fixtures/drafters', import.meta.url))
const oracle: Record<string, string> & { ids: number[] } = JSON.parse(readFileSync(join(fixture, 'oracle.json'), 'utf8'))
const width = 64

const dir = shared(tempDir)
let model: LoadedModel
beforeAll(async () => {
  const folder = join(dir.path, 'bundle')
  await buildBundle({ checkpoint: fixture, out: folder, format: 'fp32', split: 1, drafters: drafterParts })
  model = await openBundle(folder, { parts: ['input', 'middle', ...drafterParts], threads: 1 })
})
afterAll(() => model.release())

describe('a bundle of exported drafters', () => {
  it('returns the shallow and deep states that drafters were trained on', async () => {
    const shallow = await run('input', { ids: oracle.ids })
    expect(beyondHalf(shallow, values(states('shallow')))).toBeLessThan(2e-3)
    expect(beyondHalf(await run('middle', { states: states('shallow') }), values(states('deep')))).toBeLessThan(2e-3)
  })

  it('computes the trained adapter with features', async () => {
    const got = await run('adapter', { states: states('shallow'), features: states('features') })
    expect(beyondHalf(got, floats('adapter'))).toBeLessThan(1e-5)
  })

  it("computes the trained adapter of the paper's form", async () => {
    expect(beyondHalf(await run('adapter-paper', { states: states('shallow') }), floats('adapterPaper'))).toBeLessThan(1e-5)
  })

  it('computes the trained Medusa heads and has their tree', async () => {
    const medusa = model.medusa()
    expect(medusa.heads).toBe(4)
    expect(medusa.tree.at(-1)).toEqual([0, 0, 0, 0])
    const [got, want] = [await medusa.guess(states('deep')), floats('medusa')]
    expect(got).toHaveLength(want.length)
    expect(Math.max(...want.map((value, i) => Math.abs(value - got[i]!)))).toBeLessThan(1e-5)
  })
})

async function run(name: PartName, input: StepInput): Promise<number[]> {
  const part = model.part(name)
  const [got] = await part.step([{ sequence: part.createSequence(), ...input, select: 'all' }])
  return values(got!)
}

const values = (block: States) => rowsOf(block).flat()

/** Largest difference that rounding to fp16 does not explain. */
function beyondHalf(got: readonly number[], want: readonly number[]): number {
  expect(got.length).toBe(want.length)
  return Math.max(...want.map((value, i) => Math.abs(value - got[i]!) - 2 ** -11 * Math.abs(value)))
}

/** States as they cross the wire. */
function states(name: string): States {
  const bytes = Uint8Array.from(Buffer.from(oracle[name]!, 'base64'))
  const half = new Uint16Array(bytes.buffer)
  return { rows: half.length / width, width, half }
}

function floats(name: string): number[] {
  return [...new Float32Array(Uint8Array.from(Buffer.from(oracle[name]!, 'base64')).buffer)]
}
