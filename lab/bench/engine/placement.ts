import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { tempFolder } from '../../../core/kit/base/temp-folder.ts'
import { featureInputs, graphInputs, graphOutputs } from '../../../core/model/bundle/graph-io.ts'
import { openRuntime, type RuntimeOptions } from '../../../core/model/engine/capi.ts'
import type { Chain } from '../../../core/model/engine/contract.ts'
import { openModel } from '../../../core/model/engine/open-model.ts'
import type { DeviceMemory, Runtime, Tensor } from '../../../core/model/engine/runtime.ts'
import { promptIds } from './prompt.ts'

/** Where the nodes of a model's steps ran, and where its tensors lay. */
export interface Placement {
  readonly nodes: number
  readonly nodesOnProvider: number
  readonly steps: number
  /** Copies between memories, beside token ids, the places of rows, returned rows and logits. */
  readonly copies: number
  /** KV tensors that runs were given, and those of them in the provider's memory. */
  readonly kvTensors: number
  readonly kvOnDevice: number
}

type Bound = Pick<Placement, 'kvTensors' | 'kvOnDevice' | 'copies'>

/**
 * Runs steps on a runtime in which nodes may fall back to the CPU, and reads from the library's own profile where each one ran.
 * @param options the runtime's
 */
export async function measurePlacement(options: RuntimeOptions, bundle: string): Promise<Placement> {
  await using folder = await tempFolder('profile')
  const runtime = await openRuntime({ ...options, profileFolder: folder.path })
  const { provider } = runtime.info
  const watched = watchBound(runtime)
  let steps = 0
  try {
    const model = await openModel(watched.runtime, bundle, { parts: 'chain', threads: 1 })
    steps = await runSteps(model.chain({ cuts: 'half' })).finally(() => model.release())
  } finally {
    await runtime.close()
  }
  const { copies, ...nodes } = await readProfiles(folder.path, provider)
  return { ...nodes, steps, ...watched.bound, copies: copies + watched.bound.copies }
}

/** A prompt in chunks, decoding, a kept branch, a copied prefix, and packed steps. @returns their number */
async function runSteps(chain: Chain): Promise<number> {
  const [first, second] = [chain.createSequence(), chain.createSequence()]
  let steps = 0
  const step = async (rows: readonly (readonly [sequence: typeof first, rows: number])[]) => {
    await chain.step(
      rows.map(([sequence, count]) => ({ sequence, ids: promptIds(count, chain.manifest.dims.vocab), select: 'last' as const })),
    )
    steps++
  }
  for (const rows of [12, 12, 1, 1, 1]) await step([[first, rows]])
  first.gather(24, [25])
  second.copyPrefix(first, 20)
  await step([
    [first, 1],
    [second, 4],
  ])
  for (const sequence of [first, second]) sequence.release()
  return steps
}

/** Tensors of the wire and of the packing, of all slots or of one, which a step copies. */
const copied: ReadonlySet<string> = new Set([graphInputs, featureInputs, graphOutputs].flatMap((names) => Object.values(names)))

/** The same runtime; `bound` counts the tensors that runs are given. */
function watchBound(runtime: Runtime) {
  const { device } = runtime
  const bound: { -readonly [Name in keyof Bound]: number } = { kvTensors: 0, kvOnDevice: 0, copies: 0 }
  const onDevice = new WeakSet<Tensor>()
  const count = (tensors: ReadonlyMap<string, Tensor>) => {
    for (const [name, tensor] of tensors) {
      const lies = !device || onDevice.has(tensor)
      if (!lies && !copied.has(name.replace(/\.\d+$/, ''))) bound.copies++
      if (!/^(past|present)_/.test(name)) continue
      bound.kvTensors++
      if (lies) bound.kvOnDevice++
    }
  }
  const memory: DeviceMemory | undefined = device && {
    type: device.type,
    maxRows: device.maxRows,
    async allocate(...args) {
      const tensor = await device.allocate(...args)
      onDevice.add(tensor)
      return tensor
    },
    check: (tensors) => device.check(tensors),
    free: (tensors) => device.free(tensors),
    copy: (pairs) => device.copy(pairs),
  }
  const watched: Runtime = {
    info: runtime.info,
    device: memory,
    tensor: (...args) => runtime.tensor(...args),
    mapFile: (path) => runtime.mapFile(path),
    close: () => runtime.close(),
    async session(graph, options) {
      const session = await runtime.session(graph, options)
      return {
        inputNames: session.inputNames,
        outputNames: session.outputNames,
        async run(inputs, outputs) {
          // The places of moved rows are host memory by their nature.
          count(new Map([...inputs].filter(([name]) => name !== 'places')))
          count(outputs)
          await session.run(inputs, outputs)
        },
        release: () => session.release(),
      }
    },
  }
  return { runtime: watched, bound }
}

interface ProfiledNode {
  readonly cat: string
  readonly args?: { readonly provider?: string; readonly op_name?: string }
}

async function readProfiles(folder: string, provider: string): Promise<Pick<Placement, 'nodes' | 'nodesOnProvider' | 'copies'>> {
  const files = await Promise.all((await readdir(folder)).map((name) => readFile(join(folder, name), 'utf8')))
  const events = files.flatMap((text) => JSON.parse(text) as ProfiledNode[])
  const ran = events.flatMap(({ cat, args }) => (cat === 'Node' && args?.provider !== undefined ? [args] : []))
  const isCopy = ({ op_name = '' }: (typeof ran)[number]) => op_name.startsWith('Memcpy')
  const nodes = ran.filter((node) => !isCopy(node))
  return {
    nodes: nodes.length,
    nodesOnProvider: nodes.filter((node) => node.provider === provider).length,
    copies: ran.length - nodes.length,
  }
}
