import type { Progress } from '../../kit/base/progress.ts'
import type { Runtime } from './runtime.ts'

/** A chunk of a prompt takes seconds on the slowest device. A run that takes longer does not return. */
const maxRunMs = 5 * 60_000

/** The same runtime; `progress` notices a run that does not return. */
export const watchRuns = (runtime: Runtime, progress: Progress): Runtime => ({
  info: runtime.info,
  device: runtime.device,
  tensor: (type, dims, data) => runtime.tensor(type, dims, data),
  mapFile: (path) => runtime.mapFile(path),
  close: () => runtime.close(),
  async session(graph, options) {
    const session = await runtime.session(graph, options)
    return {
      inputNames: session.inputNames,
      outputNames: session.outputNames,
      run: (inputs, outputs) => progress.during('inference', maxRunMs, () => session.run(inputs, outputs)),
      release: () => session.release(),
    }
  },
})
