interface Node<T> {
  value: T | undefined
  children: Map<string, Node<T>> | undefined
}

/**
 * Values by MQTT topic or filter (MQTT 3.1.1 §4.7), one node per level. Each operation visits only nodes on the way to what it
 * finds, however many topics are stored.
 */
export class LevelTree<T> {
  readonly #root: Node<T> = { value: undefined, children: undefined }

  get(path: string): T | undefined {
    let node: Node<T> | undefined = this.#root
    for (const level of path.split('/')) node = node?.children?.get(level)
    return node?.value
  }

  set(path: string, value: T): void {
    let node = this.#root
    for (const level of path.split('/')) {
      node.children ??= new Map()
      let child = node.children.get(level)
      if (!child) {
        child = { value: undefined, children: undefined }
        node.children.set(level, child)
      }
      node = child
    }
    node.value = value
  }

  delete(path: string): void {
    const levels = path.split('/')
    const nodes = [this.#root]
    for (const level of levels) {
      const child = nodes.at(-1)?.children?.get(level)
      if (!child) return
      nodes.push(child)
    }
    nodes.at(-1)!.value = undefined
    for (let depth = levels.length; depth > 0; depth--) {
      const { value, children } = nodes[depth]!
      if (value !== undefined || (children && children.size > 0)) return
      nodes[depth - 1]!.children?.delete(levels[depth - 1]!)
    }
  }

  /** Values of the stored filters that match the topic. */
  matchingTopic(topic: string): T[] {
    const levels = topic.split('/')
    const found: T[] = []
    const visit = (node: Node<T> | undefined, depth: number): void => {
      if (!node) return
      // `a/#` matches `a` too.
      add(found, node.children?.get('#'))
      const level = levels[depth]
      if (level === undefined) {
        add(found, node)
      } else {
        visit(node.children?.get(level), depth + 1)
        visit(node.children?.get('+'), depth + 1)
      }
    }
    visit(this.#root, 0)
    return found
  }

  /** Values of the stored topics that the filter matches. */
  matchingFilter(filter: string): T[] {
    const levels = filter.split('/')
    const found: T[] = []
    const visit = (node: Node<T> | undefined, depth: number): void => {
      const level = levels[depth]
      if (level === undefined) add(found, node)
      else if (level === '#') addAll(found, node)
      else if (level === '+') for (const child of node?.children?.values() ?? []) visit(child, depth + 1)
      else if (node) visit(node.children?.get(level), depth + 1)
    }
    visit(this.#root, 0)
    return found
  }
}

function add<T>(found: T[], node: Node<T> | undefined): void {
  if (node?.value !== undefined) found.push(node.value)
}

function addAll<T>(found: T[], node: Node<T> | undefined): void {
  add(found, node)
  for (const child of node?.children?.values() ?? []) addAll(found, child)
}
