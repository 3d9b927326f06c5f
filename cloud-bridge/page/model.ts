import { useEffect, useReducer, useState } from 'preact/hooks'
import { errorText, pause } from './api.ts'

/** State beside the components, which lasts while they come and go. */
export class ViewModel {
  readonly #listeners = new Set<() => void>()

  /** @returns ends the subscription */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  protected changed(): void {
    for (const listener of this.#listeners) listener()
  }
}

/** Renders the component again when the model has changed, at most once in `everyMs`. */
export function useModel(model: ViewModel, everyMs = 100): void {
  const [, render] = useReducer((count: number) => count + 1, 0)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const end = model.subscribe(() => {
      timer ??= setTimeout(() => {
        timer = undefined
        render(0)
      }, everyMs)
    })
    // It may have changed between the rendering and this.
    render(0)
    return () => {
      end()
      clearTimeout(timer)
    }
  }, [model, everyMs])
}

/** Runs until the component leaves, or `keys` change. */
export function useTask(run: (signal: AbortSignal) => Promise<void> | void, keys: readonly unknown[]): void {
  useEffect(() => {
    const ended = new AbortController()
    void run(ended.signal)
    return () => ended.abort()
  }, [...keys])
}

interface Polled<T> {
  /** As it was last read. */
  readonly value: T | undefined
  /** Why it may be out of date. */
  readonly problem: string | undefined
}

/** Reads again and again until the component leaves. */
export function usePolled<T>(read: (signal: AbortSignal) => Promise<T>, everyMs: number, keys: readonly unknown[]): Polled<T> {
  const [polled, setPolled] = useState<Polled<T>>({ value: undefined, problem: undefined })
  useTask(async (signal) => {
    for (; !signal.aborted; await pause(everyMs, signal))
      try {
        const value = await read(signal)
        setPolled({ value, problem: undefined })
      } catch (error) {
        if (!signal.aborted) setPolled(({ value }) => ({ value, problem: errorText(error) }))
      }
  }, keys)
  return polled
}
