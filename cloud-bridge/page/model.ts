import { createContext } from 'preact'
import { useContext, useEffect, useReducer, useState } from 'preact/hooks'
import { errorText, type PageApi, pause } from './api.ts'

/** What every view needs: the API, and whether its user may see jobs and change things. */
export const SessionContext = createContext<{ readonly api: PageApi; readonly isOperator: boolean }>(undefined!)
export const useSession = () => useContext(SessionContext)

/** State beside the components, which lasts while they come and go. */
export class ViewModel {
  readonly #listeners = new Set<() => void>()

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
    const show = () => {
      timer = undefined
      render(0)
    }
    const end = model.subscribe(() => {
      timer ??= setTimeout(show, everyMs)
    })
    // It may have changed between the rendering and this.
    show()
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

/**
 * Reads again and again until the component leaves.
 * @returns `value` as it was last read; `problem`: why it may be out of date; `again` reads at once
 */
export function usePolled<T>(read: (signal: AbortSignal) => Promise<T>, everyMs: number, keys: readonly unknown[]) {
  const [polled, setPolled] = useState<{ readonly value?: T; readonly problem?: string }>({})
  const [times, again] = useReducer((count: number) => count + 1, 0)
  useTask(
    async (signal) => {
      for (; !signal.aborted; await pause(everyMs, signal))
        try {
          const value = await read(signal)
          setPolled({ value })
        } catch (error) {
          if (!signal.aborted) setPolled((before) => ({ ...before, problem: errorText(error) }))
        }
    },
    [...keys, times],
  )
  return { ...polled, again: () => again(0) }
}
