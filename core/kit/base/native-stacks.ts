import type koffi from 'koffi'

/**
 * ONNX Runtime needs larger stacks than koffi's default. koffi allows this only before it loads the first library of a process, so
 * a module that loads any library calls this first.
 */
export function enlargeStacks({ config }: Pick<typeof koffi, 'config'>): void {
  const wanted = { sync_stack_size: 8 << 20, async_stack_size: 8 << 20, sync_heap_size: 2 << 20, async_heap_size: 1 << 20 }
  if (config().async_stack_size !== wanted.async_stack_size) config(wanted)
}
