import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BundleFolder } from '../../agent/bundles/bundle-folder.ts'
import { graphInputs, graphOutputs, kvNames } from '../../core/model/bundle/graph-io.ts'
import type { Manifest } from '../../core/model/bundle/manifest.ts'
import { modelIdOf } from '../../core/model/bundle/model-id.ts'
import { OnnxGraph } from '../../core/model/bundle/onnx-writer.ts'
import { onLoopback } from '../../lab/cluster/loopback-server.ts'
import { installInto, installLimits, jobContext } from '../support/install.ts'
import { sha256Of } from '../support/sha256-of.ts'
import { fresh, shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'
import { tinyBundle } from '../support/tiny-bundle.ts'
import { tokenizerJson } from '../support/tokenizer-json.ts'

const bundle = shared(tinyBundle)
const dir = fresh(tempDir)
let root: string
let server: Awaited<ReturnType<typeof onLoopback>>
let url: string
beforeEach(async () => {
  root = join(dir.path, 'served')
  cpSync(bundle.path, root, { recursive: true })
  server = await onLoopback(createServer((request, response) => response.end(readFileSync(join(root, request.url!)))))
  url = `http://127.0.0.1:${server.port}`
})
afterEach(() => server[Symbol.asyncDispose]())

/**
 * A graph of the input part that multiplies constants: the library does so when it loads the graph, or in the first step if
 * memory is too short then.
 */
function foldingGraph(size: number, products: number): Uint8Array {
  const graph = new OnnxGraph()
  const last = graph.int64s('last', [-1])
  const matrix = graph.node('ConstantOfShape', [graph.int64s('shape', [size, size])])
  let product = matrix
  for (let count = 0; count < products; count++) product = graph.node('MatMul', [product, matrix])
  const constant = graph.node('ReduceMax', [product], { attributes: { keepdims: 0 } })
  // The outputs of a part with one layer, which all depend on the constant.
  const ids = graph.node('Cast', [graph.input(graphInputs.ids, 'int64', [1, 'T'])], { attributes: { to: 1 } })
  const row = graph.node('ConstantOfShape', [graph.int64s('hidden', [bundle.manifest.dims.hidden])])
  const rows = graph.node('Add', [graph.node('Unsqueeze', [ids, last]), graph.node('Add', [row, constant])])
  graph.node('Identity', [rows], { outputs: [graphOutputs.states] })
  graph.node('Cast', [rows], { attributes: { to: 10 }, outputs: [graphOutputs.statesHalf] })
  graph.node('ReduceMax', [rows, last], { attributes: { keepdims: 0 }, outputs: [graphOutputs.peak] })
  graph.output(graphOutputs.states, 'float32', [1, 'T', 'H'])
  graph.output(graphOutputs.statesHalf, 'float16', [1, 'T', 'H'])
  graph.output(graphOutputs.peak, 'float32', [1, 'T'])
  const { pastKey, pastValue, presentKey, presentValue } = kvNames(0, 0)
  const shape = [1, 'heads', 'capacity', 'width']
  for (const [past, present] of [
    [pastKey, presentKey],
    [pastValue, presentValue],
  ] as const) {
    graph.node('Add', [graph.input(past, 'float32', shape), constant], { outputs: [present] })
    graph.output(present, 'float32', shape)
  }
  return graph.encode('folding')
}

/** Serves the graph as that of some parts, with right hashes and a right model id. */
function serve(graph: Uint8Array, names: readonly ('input' | 'middle')[] = ['input']): Manifest {
  let manifest = JSON.parse(readFileSync(join(root, 'manifest.json'), 'utf8')) as Manifest
  for (const name of names) {
    const part = manifest.parts[name]!
    const path = part.graphs['1']!
    writeFileSync(join(root, path), graph)
    const replaced = { path, bytes: graph.length, sha256: sha256Of(join(root, path)) }
    const files = manifest.files.filter((file) => file.path !== `${name}.weights`)
    manifest = {
      ...manifest,
      parts: { ...manifest.parts, [name]: { ...part, weights: [] } },
      files: files.map((file) => (file.path === path ? replaced : file)),
    }
  }
  manifest = { ...manifest, modelId: modelIdOf(manifest) }
  writeFileSync(join(root, 'manifest.json'), JSON.stringify(manifest))
  return manifest
}

/** Installs the served bundle as an agent does. */
function install({ modelId }: Manifest, limits: { probeTimeoutS: number; probeMemoryBytes: number }, signal: AbortSignal) {
  const folder = new BundleFolder(join(dir.path, 'state'))
  const work = installInto(folder, { bundleSources: [new URL(url).origin], limits: { ...installLimits, ...limits } })
  const manifestSha256 = sha256Of(join(root, 'manifest.json'))
  return work({ modelId, manifestSha256, url }, () => {}, signal, jobContext())
}

/** Running processes that a process has started. */
const children = (of = process.pid) =>
  readdirSync('/proc').filter((pid) => {
    try {
      const [state, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /, '')
        .split(' ')
      return state !== 'Z' && parent === `${of}`
    } catch {
      return false
    }
  })

const never = new AbortController().signal
const gibibyte = 2 ** 30

describe('a bundle from elsewhere', () => {
  it('whose graph computes for a minute when it is loaded is given up at the time limit', async () => {
    const before = children()
    const installing = install(serve(foldingGraph(2_048, 200)), { probeTimeoutS: 2, probeMemoryBytes: gibibyte }, never)
    await expect(installing).rejects.toMatchObject({
      code: 'BUNDLE_INVALID',
      message: 'the self-test of part input did not end within 2 s',
    })
    await expect.poll(() => children()).toEqual(before)
    expect(await new BundleFolder(join(dir.path, 'state')).list()).toEqual([])
  })

  it('whose graph needs gigabytes fails at the memory limit, in a process of its own', async () => {
    const installing = install(serve(foldingGraph(20_000, 1)), { probeTimeoutS: 20, probeMemoryBytes: gibibyte }, never)
    await expect(installing).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' })
    expect(process.memoryUsage().rss).toBeLessThan(gibibyte)
  })

  it('is given up at once when its job is canceled', async () => {
    // Those of the tests before may end meanwhile.
    const before = new Set(children())
    const started = () => children().filter((pid) => !before.has(pid))
    const cancel = new AbortController()
    const limits = { probeTimeoutS: 60, probeMemoryBytes: gibibyte }
    const installing = install(serve(foldingGraph(2_048, 200)), limits, cancel.signal)
    const canceled = expect(installing).rejects.toThrow('canceled by its operator')
    await expect.poll(() => started().length).toBeGreaterThan(0)
    cancel.abort(new Error('canceled by its operator'))
    await canceled
    await expect.poll(started).toEqual([])
  })
})

const cli = fileURLToPath(new URL('../../dist/brim.js', import.meta.url))

describe('a command that loads such a bundle', () => {
  it.each([
    ['model verify', () => []],
    ['model run', () => ['--prompt-ids', '1']],
    [
      'agent run',
      () => ['--id', 'nano', '--api-port', '0', '--bridge', 'mqtt://127.0.0.1:1', '--state-dir', join(dir.path, 'a')],
    ],
    ['bridge run', () => ['--mqtt-port', '0', '--http-port', '0', '--state-dir', join(dir.path, 'b')]],
  ])('brim %s ends soon after SIGTERM', async (command, options) => {
    serve(foldingGraph(2_048, 200), ['input', 'middle'])
    writeFileSync(join(root, 'tokenizer', 'tokenizer.json'), JSON.stringify(tokenizerJson({ a: 0 }, 159)))
    const bundleWords = command.startsWith('model') ? [root] : ['--bundle', root]
    const child = spawn(process.execPath, [cli, ...command.split(' '), ...bundleWords, ...options()], { stdio: 'ignore' })
    try {
      const exited = once(child, 'exit')
      // The library is loaded, here or in the process of the self-test, just before the graph.
      const loaders = () => [`${child.pid}`, ...children(child.pid)]
      await expect.poll(() => loaders().some(hasLibrary)).toBe(true)
      child.kill('SIGTERM')
      const deadline = delay(6_000, ['still running'], { ref: false })
      expect(await Promise.race([exited, deadline])).toSatisfy(([code, by]) => code === 143 || by === 'SIGTERM')
      await expect.poll(() => children(child.pid)).toEqual([])
    } finally {
      child.kill('SIGKILL')
    }
  })

  const hasLibrary = (pid: string) => {
    try {
      return readFileSync(`/proc/${pid}/maps`, 'utf8').includes('libonnxruntime')
    } catch {
      return false
    }
  }
})
