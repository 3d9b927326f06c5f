import { existsSync, truncateSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { OnnxGraph } from '../../../../core/model/bundle/onnx-writer.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import type { Runtime, Tensor } from '../../../../core/model/engine/runtime.ts'
import { isMissing } from '../../../support/prerequisites.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const memoryFile = '/proc/self/smaps_rollup'
const missing = isMissing(memoryFile, existsSync(memoryFile))

let runtime: Runtime
const dir = shared(tempDir)
beforeAll(async () => {
  runtime = await openRuntime()
})
afterAll(() => runtime.close())

describe('a runtime', () => {
  it('reports its library and version', () => {
    expect(runtime.info.library).toMatch(/onnxruntime/)
    expect(runtime.info.version).toMatch(/^1\.30\./)
    expect(runtime.info.providers).toContain('CPUExecutionProvider')
  })

  it('writes outputs into memory of the caller', async () => {
    const session = await runtime.session(doubling(), { threads: 1 })
    expect(session.inputNames).toEqual(['x'])
    expect(session.outputNames).toEqual(['y'])
    const y = new Float32Array(3)
    const inputs = new Map([['x', runtime.tensor('float32', [3], Float32Array.of(1, 2, 3))]])
    await session.run(inputs, new Map([['y', runtime.tensor('float32', [3], y)]]))
    expect([...y]).toEqual([2, 4, 6])
    await session.release()
  })

  it('lets other work of the process have turns between short runs', async () => {
    const session = await runtime.session(doubling(), { threads: 1 })
    const y = new Float32Array(3)
    const inputs = new Map([['x', runtime.tensor('float32', [3], Float32Array.of(1, 2, 3))]])
    const outputs = new Map([['y', runtime.tensor('float32', [3], y)]])
    for (let run = 0; run < 3; run++) await session.run(inputs, outputs, 3)
    let hasTurn = false
    setImmediate(() => {
      hasTurn = true
    })
    for (let run = 0; run < 10_000 && !hasTurn; run++) await session.run(inputs, outputs, 3)
    expect(hasTurn).toBe(true)
    expect([...y]).toEqual([2, 4, 6])
    await session.release()
  })

  it.each([
    ['float32', Float32Array.of(1, -2, 0.5)],
    ['float16', Uint16Array.of(0x3c00, 0xc000, 0x3800)],
    ['int64', BigInt64Array.of(1n, -2n, 2n ** 40n)],
    ['int32', Int32Array.of(1, -2, 2 ** 30)],
    ['uint8', Uint8Array.of(1, 2, 255)],
  ] as const)('carries %s tensors, also those of a view', async (type, data) => {
    const graph = new OnnxGraph()
    graph.input('x', type, ['N'])
    graph.node('Identity', ['x'], { outputs: ['y'] })
    graph.output('y', type, ['N'])
    const session = await runtime.session(graph.encode('copy'), { threads: 1 })
    const y = data.slice().reverse()
    await session.run(
      new Map([['x', runtime.tensor(type, [2], data.subarray(1))]]),
      new Map([['y', runtime.tensor(type, [2], y.subarray(1))]]),
    )
    expect([...y]).toEqual([data[2], data[1], data[2]])
    await session.release()
  })

  it('runs one engine session concurrently', async () => {
    const session = await runtime.session(doubling(), { threads: 1 })
    const runs = Array.from({ length: 12 }, async (_, i) => {
      const y = new Float32Array(5)
      const x = runtime.tensor('float32', [5], new Float32Array(5).fill(i))
      await session.run(new Map([['x', x]]), new Map([['y', runtime.tensor('float32', [5], y)]]))
      return y[4]
    })
    expect(await Promise.all(runs)).toEqual(Array.from({ length: 12 }, (_, i) => 2 * i))
    await session.release()
  })

  it('rejects a tensor that is larger than its memory', () => {
    expect(() => runtime.tensor('float32', [2, 3], new Float32Array(5))).toThrow(RangeError)
  })

  it('reads weights from a mapped file and rejects offsets beyond its end', async () => {
    const path = join(dir.path, 'ramp.weights')
    writeFileSync(
      path,
      Float32Array.from({ length: 64 }, (_, i) => i),
    )
    const file = runtime.mapFile(path)
    const weights = new Map([['w', file.tensor('float32', [8], 8 * 4)]])
    const session = await runtime.session(adding(8, 'ramp.weights'), { threads: 1, weights, externalFolder: dir.path })
    const y = new Float32Array(8)
    const x = runtime.tensor('float32', [8], new Float32Array(8).fill(100))
    await session.run(new Map([['x', x]]), new Map([['y', runtime.tensor('float32', [8], y)]]))
    expect([...y]).toEqual([108, 109, 110, 111, 112, 113, 114, 115])
    expect(() => file.tensor('float32', [8], 57 * 4)).toThrow(RangeError)
    await session.release()
    file.close()
  })

  it('names a file that cannot be mapped', () => {
    const path = join(dir.path, 'empty.weights')
    writeFileSync(path, '')
    expect(() => runtime.mapFile(path)).toThrow(
      expect.objectContaining({ code: 'BUNDLE_CORRUPT', message: expect.stringContaining(path) }),
    )
    expect(() => runtime.mapFile(join(dir.path, 'absent'))).toThrow(expect.objectContaining({ code: 'BUNDLE_CORRUPT' }))
  })

  it('prefers given weights to those of the file', async () => {
    writeFileSync(join(dir.path, 'zero.weights'), new Uint8Array(32))
    const weights = new Map([['w', runtime.tensor('float32', [8], new Float32Array(8).fill(5))]])
    const session = await runtime.session(adding(8, 'zero.weights'), { threads: 1, weights, externalFolder: dir.path })
    const y = new Float32Array(8)
    const x = runtime.tensor('float32', [8], new Float32Array(8))
    await session.run(new Map([['x', x]]), new Map([['y', runtime.tensor('float32', [8], y)]]))
    expect([...y]).toEqual(Array(8).fill(5))
    await session.release()
  })

  it.skipIf(missing)('shares prepacked weights between engine sessions with the same weights', async () => {
    const [rows, columns] = [4096, 3072]
    const path = join(dir.path, 'matrix.weights')
    writeFileSync(path, '')
    truncateSync(path, rows * columns * 4)
    const file = runtime.mapFile(path)
    const weights = new Map([['w', file.tensor('float32', [rows, columns], 0)]])
    const open = () =>
      runtime.session(multiplying(rows, columns, 'matrix.weights'), { threads: 1, weights, externalFolder: dir.path })
    const sessions = [await open()]
    const before = await anonymousMiB()
    for (let i = 0; i < 3; i++) sessions.push(await open())
    expect((await anonymousMiB()) - before).toBeLessThan(24) // one packed copy alone takes 48
    for (const session of sessions) await session.release()
    file.close()
  })

  it('fails with the message of the library', async () => {
    await expect(runtime.session(Uint8Array.of(1, 2, 3), { threads: 1 })).rejects.toMatchObject({ code: 'RUNTIME_FAILED' })
    const session = await runtime.session(doubling(), { threads: 1 })
    const wrong = new Map([['x', runtime.tensor('int32', [3], new Int32Array(3))]])
    const y = new Map([['y', runtime.tensor('float32', [3], new Float32Array(3))]])
    await expect(session.run(wrong, y)).rejects.toMatchObject({
      code: 'RUNTIME_FAILED',
      cause: { message: expect.stringContaining('int32') },
    })
    await expect(session.run(new Map(), y)).rejects.toMatchObject({
      code: 'RUNTIME_FAILED',
      message: expect.stringContaining('x'),
    })
    await session.release()
  })

  it('lists the available providers if one is unavailable', async () => {
    await expect(openRuntime({ provider: { name: 'AbacusExecutionProvider' } })).rejects.toMatchObject({
      code: 'PROVIDER_UNAVAILABLE',
      message: expect.stringContaining('CPUExecutionProvider'),
    })
  })

  it('fails with a hint if the file is not a library', async () => {
    await expect(openRuntime({ library: join(dir.path, 'absent.so') })).rejects.toMatchObject({
      code: 'RUNTIME_UNAVAILABLE',
      hint: expect.stringContaining('ORT_LIB'),
    })
  })

  it('can be opened by path while another is open', async () => {
    const other = await openRuntime({ library: runtime.info.library })
    const session = await other.session(doubling(), { threads: 1 })
    const y = new Float32Array(1)
    const x = other.tensor('float32', [1], Float32Array.of(21))
    await session.run(new Map([['x', x]]), new Map([['y', other.tensor('float32', [1], y)]]))
    expect(y[0]).toBe(42)
    await other.close()
    await expect(session.run(new Map([['x', x]]), new Map())).rejects.toThrow(/after its release/)
  })
})

describe('the release of an engine session', () => {
  it('waits for a run in progress and rejects further runs', async () => {
    const session = await runtime.session(doubling(), { threads: 1 })
    const y = new Float32Array(1 << 20)
    const run = () =>
      session.run(
        new Map<string, Tensor>([['x', runtime.tensor('float32', [y.length], new Float32Array(y.length).fill(3))]]),
        new Map([['y', runtime.tensor('float32', [y.length], y)]]),
      )
    const running = run()
    const released = session.release()
    await expect(run()).rejects.toThrow(/after its release/)
    await running
    expect(y.at(-1)).toBe(6)
    await released
    await session.release()
  })

  it('of a tensor prevents its use afterwards', async () => {
    const session = await runtime.session(doubling(), { threads: 1 })
    const x = runtime.tensor('float32', [1], new Float32Array(1))
    x.release()
    x.release()
    const y = runtime.tensor('float32', [1], new Float32Array(1))
    await expect(session.run(new Map([['x', x]]), new Map([['y', y]]))).rejects.toThrow(/after its release/)
    await session.release()
  })
})

function doubling(): Uint8Array {
  const graph = new OnnxGraph()
  graph.input('x', 'float32', ['N'])
  graph.node('Add', ['x', 'x'], { outputs: ['y'] })
  graph.output('y', 'float32', ['N'])
  return graph.encode('doubling')
}

function adding(length: number, location: string): Uint8Array {
  const graph = new OnnxGraph()
  graph.input('x', 'float32', [length])
  graph.external('w', 'float32', [length], { location, offset: 0, bytes: length * 4 })
  graph.node('Add', ['x', 'w'], { outputs: ['y'] })
  graph.output('y', 'float32', [length])
  return graph.encode('adding')
}

function multiplying(rows: number, columns: number, location: string): Uint8Array {
  const graph = new OnnxGraph()
  graph.input('x', 'float32', ['N', columns])
  graph.external('w', 'float32', [rows, columns], { location, offset: 0, bytes: rows * columns * 4 })
  graph.node('FusedMatMul', ['x', 'w'], { domain: 'com.microsoft', attributes: { transB: 1 }, outputs: ['y'] })
  graph.output('y', 'float32', ['N', rows])
  return graph.encode('multiplying')
}

/** Memory of this process that no file backs. */
async function anonymousMiB(): Promise<number> {
  const text = await readFile(memoryFile, 'utf8')
  return Number(/^Anonymous:\s+(\d+)/m.exec(text)?.[1]) / 1024
}
