import { OnnxGraph } from '../bundle/onnx-writer.ts'
import type { EngineSession, Runtime } from './runtime.ts'

const size = 32

/**
 * Whether the library computes matrix products of fp32 with packed copies alone, for one row and for several, so that the memory of
 * the originals may be given up after a graph is compiled: a matrix of ones is compiled, overwritten with zeros and multiplied by.
 * @param file any file of at least 4 KiB in this folder: the library wants external data to exist, but does not read it
 */
export async function packsMatrices(runtime: Runtime, folder: string, file: string): Promise<boolean> {
  const matrix = new Float32Array(size * size).fill(1)
  const weights = new Map([['w', runtime.tensor('float32', [size, size], matrix)]])
  const session = await runtime.session(productGraph(file), { threads: 1, weights, externalFolder: folder })
  matrix.fill(0)
  try {
    for (const rows of [1, 5]) if (!(await sumsOnes(runtime, session, rows))) return false
    return true
  } finally {
    await session.release()
    for (const tensor of weights.values()) tensor.release()
  }
}

async function sumsOnes(runtime: Runtime, session: EngineSession, rows: number): Promise<boolean> {
  const products = new Float32Array(rows * size)
  const x = runtime.tensor('float32', [rows, size], new Float32Array(rows * size).fill(1))
  const y = runtime.tensor('float32', [rows, size], products)
  await session.run(new Map([['x', x]]), new Map([['y', y]]))
  for (const tensor of [x, y]) tensor.release()
  return products.every((product) => product === size)
}

function productGraph(location: string): Uint8Array {
  const graph = new OnnxGraph()
  graph.input('x', 'float32', ['N', size])
  graph.external('w', 'float32', [size, size], { location, offset: 0, bytes: size * size * 4 })
  graph.node('FusedMatMul', ['x', 'w'], { domain: 'com.microsoft', attributes: { transB: 1 }, outputs: ['y'] })
  graph.output('y', 'float32', ['N', size])
  return graph.encode('product')
}
