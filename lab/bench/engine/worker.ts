import { type CopyingEngine, openCopyingEngine } from './copying.ts'
import { type InPlaceEngine, openInPlaceEngine } from './in-place.ts'

/**
 * One engine in a separate process, so that the engines share neither memory nor garbage collection:
 * `node worker.js <in-place|copying|growing> <bundle> <threads> [library]`, then requests over IPC.
 */
export type WorkerRequest =
  | { readonly kind: 'prefill'; readonly tokens: number }
  | { readonly kind: 'decode'; readonly context: number; readonly tokens: number }
  | { readonly kind: 'packed'; readonly context: number; readonly sequences: number; readonly rounds: number }

export type WorkerReply =
  | { readonly kind: 'ready'; readonly onnxruntime: string }
  | { readonly kind: 'done'; readonly samples: Readonly<Record<string, readonly number[]>> }
  | { readonly kind: 'failed'; readonly message: string }

async function serve(engine: InPlaceEngine | CopyingEngine, request: WorkerRequest): Promise<WorkerReply> {
  switch (request.kind) {
    case 'prefill':
      return { kind: 'done', samples: { ms: [await engine.prefill(request.tokens)] } }
    case 'decode':
      return { kind: 'done', samples: { ms: await engine.decode(request.context, request.tokens) } }
    case 'packed': {
      if (!('packed' in engine)) throw new Error('only the in-place engine has packed steps')
      return { kind: 'done', samples: await engine.packed(request.context, request.sequences, request.rounds) }
    }
  }
}

const [style, bundle = '', threads = '1', library] = process.argv.slice(2)
const reply = (message: WorkerReply) => process.send?.(message)
try {
  const engine = await (style === 'copying' || style === 'growing'
    ? openCopyingEngine(bundle, Number(threads), style)
    : openInPlaceEngine(bundle, Number(threads), library))
  process.on('message', (request: WorkerRequest) => {
    serve(engine, request).then(reply, (error: unknown) => reply({ kind: 'failed', message: String(error) }))
  })
  process.on('disconnect', () => process.exit(0))
  reply({ kind: 'ready', onnxruntime: engine.onnxruntime })
} catch (error) {
  reply({ kind: 'failed', message: String(error) })
  process.disconnect?.()
}
