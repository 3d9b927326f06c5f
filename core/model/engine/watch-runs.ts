import type { Progress } from '../../kit/base/progress.ts'
import type { DeviceMemory, Runtime } from './runtime.ts'

/** A chunk of a prompt takes seconds on the slowest device, and waits for the runs of other models on it. A run that takes longer does not return. */
const maxRunMs = 5 * 60_000

/** The same runtime; `progress` notices a run that does not return. */
export const watchRuns = (runtime: Runtime, progress: Progress): Runtime => ({
  info: runtime.info,
  device: runtime.device && watchCopies(runtime.device, progress),
  tensor: (type, dims, data) => runtime.tensor(type, dims, data),
  mapFile: (path) => runtime.mapFile(path),
  close: () => runtime.close(),
  async session(graph, options) {
    const session = await runtime.session(graph, options)
    return {
      inputNames: session.inputNames,
      outputNames: session.outputNames,
      run: (inputs, outputs, rows) => progress.during('inference', maxRunMs, () => session.run(inputs, outputs, rows)),
      release: () => session.release(),
    }
  },
})

const watchCopies = (device: DeviceMemory, progress: Progress): DeviceMemory => ({
  type: device.type,
  maxRows: device.maxRows,
  allocate: (type, dims) => device.allocate(type, dims),
  check: (tensors) => progress.during('inference', maxRunMs, () => device.check(tensors)),
  free: (tensors) => device.free(tensors),
  copy: (pairs) => progress.during('inference', maxRunMs, () => device.copy(pairs)),
})
