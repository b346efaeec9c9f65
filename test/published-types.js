/** Checks a package's declarations with TypeScript's API: hover texts of public names, and compiler errors. */
/**
 * Returns the public names without a doc comment, such as `Engine.submit`. Public are the exports of the entries, their members,
 * and the members of all types that they use. Types of Node and of the language are left out.
 */
export function bareNames(ts, entries, folder) {
  const program = ts.createProgram([...entries], {
    ...{ strict: true, noEmit: true, types: [], target: ts.ScriptTarget.ES2022, lib: ["lib.esnext.d.ts"] },
    ...{ module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext },
  });
  const checker = program.getTypeChecker();
  const bare = new Set();
  const seen = new Set();
  const isOurs = (symbol) =>
    symbol.declarations?.some((declaration) => declaration.getSourceFile().fileName.startsWith(folder)) === true;
  const hasText = (symbol) => symbol.getDocumentationComment(checker).some(({ text }) => text.trim() !== "");

  function visit(type, name) {
    if (seen.has(type)) return;
    seen.add(type);
    const { typeArguments = [] } = type;
    const aliased = type.aliasTypeArguments ?? [];
    const parts = type.isUnionOrIntersection() ? type.types : [];
    for (const part of [...parts, ...typeArguments, ...aliased]) visit(part, name);
    if (parts.length > 0) return;
    const index = [type.getStringIndexType(), type.getNumberIndexType()];
    for (const indexed of index) if (indexed) visit(indexed, name);
    for (const signature of type.getCallSignatures()) {
      visit(signature.getReturnType(), name);
      for (const parameter of signature.getParameters()) visit(checker.getTypeOfSymbol(parameter), name);
    }
    const own = (type.aliasSymbol ?? type.symbol)?.name.replace(/^__(type|object)$/, "");
    for (const property of checker.getPropertiesOfType(type)) {
      if (!isOurs(property) || property.name.startsWith("__@") || property.name.startsWith("#")) continue;
      const called = `${own || name}.${property.name}`;
      if (!hasText(property)) bare.add(called);
      visit(checker.getTypeOfSymbol(property), called);
    }
  }

  for (const entry of entries) {
    const source = program.getSourceFile(entry);
    const module = source && checker.getSymbolAtLocation(source);
    if (module === undefined) throw new Error(`${entry}: no module`);
    for (const exported of checker.getExportsOfModule(module)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      if (!isOurs(symbol)) continue;
      if (!hasText(symbol)) bare.add(symbol.name);
      if (symbol.flags & ts.SymbolFlags.Value) visit(checker.getTypeOfSymbol(symbol), symbol.name);
      if (symbol.flags & ts.SymbolFlags.Type) visit(checker.getDeclaredTypeOfSymbol(symbol), symbol.name);
    }
  }
  return [...bare];
}

/** Returns the compiler's errors in these files and all declarations, for each way of module resolution separately. */
export function complaints(ts, files, ways) {
  const parsed = new Map();
  return ways.map(({ module, moduleResolution, names }) => {
    const options = {
      ...{ strict: true, noEmit: true, skipLibCheck: false, types: [], lib: ["lib.es2022.d.ts"] },
      ...{ target: ts.ScriptTarget.ES2022, module: ts.ModuleKind[module] },
      moduleResolution: ts.ModuleResolutionKind[moduleResolution],
    };
    const host = ts.createCompilerHost(options);
    const { getSourceFile } = host;
    host.getSourceFile = (path, how, ...rest) => {
      const key = `${path} ${how.impliedNodeFormat}`;
      if (!parsed.has(key)) parsed.set(key, getSourceFile(path, how, ...rest));
      return parsed.get(key);
    };
    const program = ts.createProgram(
      files.filter((file) => names.some((name) => file.endsWith(name))),
      options,
      host,
    );
    return ts.getPreEmitDiagnostics(program).map(({ messageText, file }) => {
      const text = ts.flattenDiagnosticMessageText(messageText, " ");
      return `${moduleResolution}: ${file?.fileName ?? ""}: ${text}`;
    });
  });
}
