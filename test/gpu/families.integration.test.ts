import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { openRuntime } from '../../core/model/engine/capi.ts'
import { openModel } from '../../core/model/engine/open-model.ts'
import { cpuProvider } from '../../core/model/engine/provider.ts'
import type { Runtime } from '../../core/model/engine/runtime.ts'
import { readOracleIn } from '../oracle/fixtures.ts'
import { softwareGpu } from '../support/software-gpu.ts'
import { tempDir } from '../support/temp-dir.ts'

/** Each family's graphs for devices: golden vectors are shorter than a window, so that a kernel without windows would pass them. */
const gpu = softwareGpu()
const folder = fileURLToPath(new URL('../oracle/fixtures/families', import.meta.url))
/** What differs from Llama: norms of heads, none of rotation, a part of it, windows, two rotary tables, norms after, factors. */
const names = ['gemma3', 'granite', 'ministral', 'olmo2', 'phi3', 'qwen3', 'smollm3']
/** Longer than what this WebGPU device computes right in one step. */
const chunk = 40

const dir = tempDir()
beforeAll(async () => {
  for (const name of names) await buildBundle({ checkpoint: `${folder}/${name}`, out: `${dir.path}/${name}`, format: 'fp32' })
})
afterAll(() => dir[Symbol.dispose]())

const runtimes: (readonly [string, () => Promise<Runtime>])[] = [
  ['the CPU as a device', () => openRuntime({ provider: { ...cpuProvider, compute: 'fp32' } })],
  ...(gpu ? [['WebGPU', () => openRuntime({ provider: gpu })] as const] : []),
]

const largest = (a: ArrayLike<number>, b: Float32Array) =>
  b.reduce((most, value, at) => Math.max(most, Math.abs(value - a[at]!)), 0)

describe.each(runtimes)('on %s', (_, open) => {
  let runtime: Runtime
  beforeAll(async () => {
    runtime = await open()
  })
  afterAll(() => runtime.close())

  it.each(names)('%s has the logits of transformers, in chunks and in a tree', { timeout: 120_000 }, async (name) => {
    // 104 tokens: several windows and chunks.
    const { promptIds, continuation, positions, logits } = readOracleIn(`${folder}/${name}`).cases.at(-2)!
    const ids = [...promptIds, ...continuation]
    const model = await openModel(runtime, `${dir.path}/${name}`, { parts: 'chain', threads: 1 })
    const chain = model.chain({ cuts: 'full' })
    const line = chain.createSequence()
    const rows: number[] = []
    for (let from = 0; from < ids.length; from += chunk) {
      const own = ids.slice(from, from + chunk)
      const select = positions.filter((at) => at >= from && at < from + own.length).map((at) => at - from)
      const values = await chain.step([{ sequence: line, ids: own, select: select.length === 0 ? 'none' : select }])
      if (select.length > 0) rows.push(...values)
    }
    expect(rows).toHaveLength(logits.length)
    expect(largest(rows, logits)).toBeLessThan(2e-3)
    // The last row follows the row before its neighbour: the neighbour is another branch.
    const at = ids.length - 2
    line.truncate(at)
    const step = { sequence: line, ids: [ids[at]!, 9, ids[at + 1]!], parents: [at - 1, at - 1, at], select: [2] }
    const branched = await chain.step([step])
    line.release()
    expect(largest(branched, logits.subarray(-branched.length))).toBeLessThan(2e-3)
    await model.release()
  })
})
