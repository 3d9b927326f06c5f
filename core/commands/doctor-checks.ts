import { constants } from 'node:fs'
import { access, stat, statfs } from 'node:fs/promises'
import { availableParallelism, freemem, totalmem } from 'node:os'
import { dirname } from 'node:path'
import { clockIsSet, nowIso } from '../kit/base/clock.ts'
import { BrimError, type ErrorCode } from '../kit/base/errors.ts'
import { OnnxGraph } from '../model/bundle/onnx-writer.ts'
import type { Provider, ProviderWish } from '../model/engine/provider.ts'
import type { Runtime } from '../model/engine/runtime.ts'
import { reinstallHint } from './reinstall-hint.ts'

/** One line of `brim doctor`. `fail`: Brim cannot run here; `warn`: it runs, but with too little memory or disk. */
export interface Check {
  readonly name: string
  readonly status: 'ok' | 'warn' | 'fail'
  readonly detail: string
  readonly hint?: string | undefined
  /** Of the error that a failed check causes. */
  readonly code?: ErrorCode
  /** The detail as values, for --json. */
  readonly values: Readonly<Record<string, string | number | readonly string[]>>
}

const gib = 2 ** 30
const minNode = [20, 19] as const

export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number)
  const isRecent = major > minNode[0] || (major === minNode[0] && minor >= minNode[1])
  const detail = `${version} on ${process.platform} ${process.arch}, ${availableParallelism()} cores`
  const values = { version, platform: process.platform, arch: process.arch, cores: availableParallelism() }
  if (isRecent) return { name: 'node', status: 'ok', detail, values }
  const hint = `install Node ${minNode.join('.')} or newer`
  return { name: 'node', status: 'fail', detail, hint, code: 'PREREQUISITE_MISSING', values }
}

/**
 * Loads the library, computes with it, and tests which of its execution providers work on this machine.
 * @param wish what an agent is asked to compute with by default
 */
export async function checkRuntime(library: string | undefined, wish: ProviderWish): Promise<Check[]> {
  try {
    // Not statically: it loads koffi, which may be what is broken.
    const { openRuntime } = await import('../model/engine/capi.ts')
    const runtime = await openRuntime({ library })
    try {
      if ((await double(runtime, 21)) !== 42) throw new BrimError('RUNTIME_FAILED', 'ONNX Runtime computes a wrong sum')
      const { info } = runtime
      const detail = `${info.version}, ${info.library}`
      const values = { version: info.version, library: info.library }
      return [{ name: 'onnxruntime', status: 'ok', detail, values }, await checkProviders(runtime, wish)]
    } finally {
      await runtime.close()
    }
  } catch (error) {
    const { code, hint } = error instanceof BrimError ? error : ({ code: 'RUNTIME_UNAVAILABLE', hint: reinstallHint() } as const)
    const detail = [error, (error as Error).cause]
      .flatMap((one) => (one instanceof Error ? [one.message.split('\n')[0]] : []))
      .join(': ')
    return [{ name: 'onnxruntime', status: 'fail', detail, hint, code, values: {} }]
  }
}

export function checkMemory(freeBytes = freemem(), totalBytes = totalmem()): Check {
  const detail = `${toGib(freeBytes)} of ${toGib(totalBytes)} GiB free`
  const values = { freeBytes, totalBytes }
  if (freeBytes >= gib) return { name: 'memory', status: 'ok', detail, values }
  return { name: 'memory', status: 'warn', detail, hint: 'only small models fit', values }
}

/** Certificates, tokens and telemetry need it. A device without a battery-backed clock may start without it. */
export function checkClock(wallMs = Date.now()): Check {
  const values = { now: nowIso() }
  if (clockIsSet(wallMs)) return { name: 'clock', status: 'ok', detail: new Date(wallMs).toISOString(), values }
  const hint = 'turn on network time: timedatectl set-ntp true'
  return {
    name: 'clock',
    status: 'fail',
    detail: `not set: ${new Date(wallMs).toISOString()}`,
    hint,
    code: 'PREREQUISITE_MISSING',
    values,
  }
}

/** Of the folder for the state of agents and bridges. */
export async function checkDisk(stateFolder: string): Promise<Check> {
  const folder = await nearestFolder(stateFolder)
  const { bavail, bsize } = await statfs(folder)
  const freeBytes = bavail * bsize
  const detail = `${toGib(freeBytes)} GiB free for ${stateFolder}`
  const values = { freeBytes, path: stateFolder }
  const isWritable = await Promise.all([stat(folder), access(folder, constants.W_OK)]).then(
    ([found]) => found.isDirectory(),
    () => false,
  )
  if (!isWritable) {
    const hint = 'choose another folder with --state-dir or XDG_STATE_HOME'
    return { name: 'disk', status: 'fail', detail: `${folder} is not a writable folder`, hint, code: 'TARGET_UNWRITABLE', values }
  }
  if (freeBytes < gib)
    return { name: 'disk', status: 'warn', detail, hint: 'a bundle needs about the size of its weights', values }
  return { name: 'disk', status: 'ok', detail, values }
}

async function checkProviders({ info }: Runtime, wish: ProviderWish): Promise<Check> {
  const { findGpu } = await import('../model/engine/choose-provider.ts')
  const { cpuProvider, shortNameOf } = await import('../model/engine/provider.ts')
  const found = await findGpu(wish, info.library)
  const { provider, drivers } = found
  const others = info.providers.filter((name) => name !== provider?.name).map((name): Provider => ({ name }))
  const failures = new Map<string, string | undefined>()
  for (const each of provider ? [...others, provider] : others) failures.set(each.name, await startFailure(info.library, each))
  const [usable, unusable] = [true, false].map((is) =>
    [...failures].filter(([, failure]) => (failure === undefined) === is).map(([name]) => name),
  ) as [string[], string[]]
  const failure = provider && failures.get(provider.name)
  const auto = shortNameOf(provider && failure === undefined ? provider.name : cpuProvider.name)
  const where = `${found.reason}, driver ${drivers.join(', ')}`
  let reason = found.reason
  if (provider && failure === undefined) reason = `${where}; taken where a trial finds it correct and faster, else the CPU`
  else if (provider) reason = `${shortNameOf(provider.name)} (${where}) does not start: ${failure}`
  const byName = usable.filter((each) => each !== cpuProvider.name && each !== provider?.name)
  const detail = [
    usable.join(', '),
    ...(unusable.length === 0 ? [] : [`not usable on this machine: ${unusable.join(', ')}`]),
    `--provider auto ${auto === shortNameOf(cpuProvider.name) ? 'takes' : 'tries'} ${auto}: ${reason}`,
    ...(byName.length === 0 ? [] : [`only by --provider: ${byName.join(', ')}`]),
  ].join('; ')
  const plugin = provider?.plugin === undefined ? {} : { plugin: provider.plugin }
  const reasons = unusable.map((each) => `${each}: ${failures.get(each)}`)
  const values = { usable, unusable, failures: reasons, auto, reason, drivers, ...plugin }
  if (failure === undefined) return { name: 'providers', status: 'ok', detail, values }
  const hint = 'check the driver (vulkaninfo), and that this user may open its devices'
  return { name: 'providers', status: 'warn', detail, hint, values }
}

/** Opening a runtime starts its provider. @returns why it does not start */
async function startFailure(library: string, provider: Provider): Promise<string | undefined> {
  const { openRuntime } = await import('../model/engine/capi.ts')
  const { failureOf } = await import('../model/engine/provider.ts')
  try {
    const runtime = await openRuntime({ library, provider })
    await runtime.close()
    return undefined
  } catch (error) {
    return failureOf(error)
  }
}

/** 2·value. */
async function double(runtime: Runtime, value: number): Promise<number | undefined> {
  const graph = new OnnxGraph()
  graph.input('x', 'float32', [1])
  graph.node('Add', ['x', 'x'], { outputs: ['y'] })
  graph.output('y', 'float32', [1])
  const session = await runtime.session(graph.encode('doubling'), { threads: 1 })
  const y = new Float32Array(1)
  const tensors = [runtime.tensor('float32', [1], Float32Array.of(value)), runtime.tensor('float32', [1], y)] as const
  try {
    await session.run(new Map([['x', tensors[0]]]), new Map([['y', tensors[1]]]))
  } finally {
    for (const tensor of tensors) tensor.release()
    await session.release()
  }
  return y[0]
}

async function nearestFolder(path: string): Promise<string> {
  try {
    await access(path, constants.F_OK)
    return path
  } catch {
    return dirname(path) === path ? path : nearestFolder(dirname(path))
  }
}

const toGib = (bytes: number) => (bytes / gib).toFixed(1)
