/** Holds callers back while it is closed. */
export class Barrier {
  #closed: { readonly passed: Promise<void>; readonly open: () => void } | undefined

  close(): void {
    if (this.#closed) return
    let open = () => {}
    const passed = new Promise<void>((resolve) => {
      open = resolve
    })
    this.#closed = { passed, open }
  }

  open(): void {
    this.#closed?.open()
    this.#closed = undefined
  }

  /** Undefined: it is open. */
  get passed(): Promise<void> | undefined {
    return this.#closed?.passed
  }
}
