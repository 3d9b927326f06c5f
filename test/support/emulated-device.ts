import { readFileSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { BrimError } from '../../core/kit/base/errors.ts'
import { onDevice } from '../../core/model/engine/capi-device.ts'
import type { DeviceMemory, Runtime, Tensor, TensorData, TensorType } from '../../core/model/engine/runtime.ts'

/** By type of a tensor: values that nothing may read before they are written. */
const garbage: Record<TensorType, (length: number) => TensorData> = {
  float32: (length) => new Float32Array(length).fill(Number.NaN),
  float16: (length) => new Uint16Array(length).fill(0x7e00),
  int64: (length) => new BigInt64Array(length).fill(-1n),
  int32: (length) => new Int32Array(length).fill(-1),
  uint8: (length) => new Uint8Array(length).fill(255),
}

/** What is wrong with an emulated device; may change while it is used. */
export interface DeviceFaults {
  /** Runs and copies fail, as after a reset of a driver. */
  isLost?: boolean
  /** The next run fails. */
  failsOnce?: boolean
  /** Of one tensor: a larger one has no memory. */
  maxBytes?: number
}

export const deviceFailure = (what: string) =>
  new BrimError('RUNTIME_FAILED', `ONNX Runtime failed while ${what}`, { cause: new Error('Device is lost') })

/**
 * A runtime on the CPU that is given the graphs of a device, as if it had a memory of its own: for what does not depend on a
 * driver. Nothing is done in the turn in which it is asked for.
 */
export function emulateDevice(runtime: Runtime, faults: DeviceFaults = {}): Runtime {
  const later = <Result>(call: () => Result) =>
    onDevice(async () => {
      await setImmediate()
      return call()
    })
  const device: DeviceMemory = {
    type: 'float32',
    maxRows: undefined,
    allocate: (type, dims) => later(() => runtime.tensor(type, dims, garbage[type](dims.reduce((size, dim) => size * dim, 1)))),
    free: (tensors) =>
      later(() => {
        for (const tensor of tensors) {
          // A step that still read it would show.
          tensor.data?.set(garbage[tensor.type](tensor.data.length) as never)
          tensor.release()
        }
      }),
    check: (tensors) =>
      later(() => {
        if (faults.isLost) throw deviceFailure('copying between memories')
        if (tensors.some((tensor) => bytesOf(tensor).length > (faults.maxBytes ?? Number.POSITIVE_INFINITY)))
          throw new BrimError('OUT_OF_MEMORY', 'the device gave no memory')
      }),
    copy: (pairs) =>
      later(() => {
        if (faults.isLost) throw deviceFailure('copying between memories')
        for (const [from, to] of pairs) bytesOf(to).set(bytesOf(from))
      }),
  }
  return {
    info: runtime.info,
    device,
    tensor: (...args) => runtime.tensor(...args),
    mapFile: (path) => mapInto(runtime, readFileSync(path)),
    session: async (graph, options) => {
      const session = await onDevice(() => runtime.session(graph, options))
      return {
        inputNames: session.inputNames,
        outputNames: session.outputNames,
        run: (inputs, outputs) =>
          onDevice(async () => {
            if (faults.isLost || faults.failsOnce) {
              faults.failsOnce = false
              throw deviceFailure('running a graph')
            }
            await session.run(inputs, outputs)
          }),
        release: () => session.release(),
      }
    },
    close: () => runtime.close(),
  }
}

function mapInto(runtime: Runtime, file: Buffer): ReturnType<Runtime['mapFile']> {
  return {
    bytes: file.length,
    tensor: (type, dims, offset) => {
      const values = garbage[type](dims.reduce((size, dim) => size * dim, 1))
      new Uint8Array(values.buffer).set(file.subarray(offset, offset + values.byteLength))
      return runtime.tensor(type, dims, values)
    },
    releasePages: () => {},
    close: () => {},
  }
}

function bytesOf({ type, dims, data }: Tensor): Uint8Array {
  if (!data) throw new Error(`a ${type} tensor [${dims}] is not in the memory of this process`)
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
}
